/* jpeg.c: JPEG by libjpeg-turbo, with its defaults: exact integer transform, smooth upsampling. */
#include "plugins/image/image.h"

#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <stdlib.h>

/* A file of a few bytes can ask for any number of scans over the whole picture. */
enum { MAX_SCANS = 500 };

typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    bool cut; /* the data ended early */
    uint8_t *row;
} decoder;

static void fail(j_common_ptr jpeg)
{
    longjmp(((decoder *)jpeg->client_data)->failed, 1);
}

static void note(j_common_ptr jpeg, int level)
{
    decoder *d = jpeg->client_data;
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF)
        d->cut = true;
}

static void count_scans(j_common_ptr jpeg)
{
    if (((j_decompress_ptr)jpeg)->input_scan_number > MAX_SCANS)
        fail(jpeg);
}

/* Inks; as Adobe stores them, 255 is none. */
static void cmyk_to_rgb(const uint8_t *from, uint8_t *to, size_t n, bool adobe)
{
    int flip = adobe ? 0 : 255;
    for (size_t i = 0; i < n; i++, from += 4, to += 3)
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)(((from[c] ^ flip) * (from[3] ^ flip) + 127) / 255);
}

static tw_image_status read_rows(decoder *d, tw_image *out)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    bool cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    /* Progressive files are kept as coefficients of 16 bits until the last scan. */
    uint64_t more = jpeg_has_multiple_scans(jpeg) ? 2 * (uint64_t)jpeg->num_components : 0;
    tw_image_status status = tw_image_allocate(out, jpeg->image_width, jpeg->image_height, more);
    if (status != TW_IMAGE_OK)
        return status;
    jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(jpeg);
    d->row = malloc(out->width * 4);
    if (!d->row)
        return TW_IMAGE_NO_MEMORY;
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = out->rgb + (size_t)jpeg->output_scanline * out->width * 3;
        jpeg_read_scanlines(jpeg, cmyk ? &d->row : &to, 1);
        if (cmyk)
            cmyk_to_rgb(d->row, to, out->width, jpeg->saw_Adobe_marker);
    }
    jpeg_finish_decompress(jpeg);
    return d->cut ? TW_IMAGE_BROKEN : TW_IMAGE_OK;
}

tw_image_status tw_image_decode_jpeg(const uint8_t *data, size_t size, tw_image *out)
{
    decoder d = {0};
    volatile tw_image_status status = TW_IMAGE_BROKEN;
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = fail;
    d.errors.emit_message = note;
    d.progress.progress_monitor = count_scans;
    if (!setjmp(d.failed)) {
        d.jpeg.client_data = &d;
        jpeg_create_decompress(&d.jpeg);
        d.jpeg.progress = &d.progress;
        jpeg_mem_src(&d.jpeg, data, size);
        jpeg_read_header(&d.jpeg, TRUE);
        status = read_rows(&d, out);
    }
    jpeg_destroy_decompress(&d.jpeg);
    free(d.row);
    return status;
}
