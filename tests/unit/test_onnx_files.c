/* Model files, external data, and the attacks that external data invites. */
#include "onnx_check.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder with a model's folder inside: dir/model/…, dir/secret.bin. */
static char dir[64];

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", dir, name);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[256];
    path_of(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    char path[256], target[256];
    static const float numbers[4] = {1, 2, 3, 4};
    strcpy(dir, "/tmp/tilewright-onnx-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    path_of(path, sizeof path, "model");
    mkdir(path, 0700);
    path_of(path, sizeof path, "model/sub");
    mkdir(path, 0700);
    write_file("secret.bin", numbers, sizeof numbers);
    write_file("model/data.bin", numbers, sizeof numbers);
    write_file("model/sub/deep.bin", numbers, sizeof numbers);
    path_of(path, sizeof path, "model/link.bin");
    path_of(target, sizeof target, "secret.bin");
    if (symlink(target, path))
        return -1;
    path_of(path, sizeof path, "model/up");
    if (symlink(dir, path))
        return -1;
    path_of(path, sizeof path, "model/hard.bin");
    if (link(target, path))
        return -1;
    path_of(path, sizeof path, "model/pipe");
    return mkfifo(path, 0700);
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    return system(command);
}

/* Imports a model whose tensor w[2] of floats is external; missing texts are left out. */
static imported import_external(const char *location, const char *offset, const char *length)
{
    const char *pairs[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    pb graph = {0}, t = {0};
    char path[256];
    pb_int(&t, 1, 2);
    pb_int(&t, 2, ONNX_FLOAT);
    pb_text(&t, 8, "w");
    for (int i = 0; i < 3; i++) {
        pb entry = {0};
        if (!pairs[i][1])
            continue;
        pb_text(&entry, 1, pairs[i][0]);
        pb_text(&entry, 2, pairs[i][1]);
        pb_message(&t, 13, entry);
    }
    pb_int(&t, 14, 1);
    onnx_add_node(&graph, onnx_node("Add", "x,w", "y"));
    onnx_add_initializer(&graph, t);
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
    pb model = onnx_model(graph, 13);
    write_file("model/m.onnx", model.data, model.size);
    free(model.data);
    path_of(path, sizeof path, "model/m.onnx");
    imported r = {.ctx = tw_context_create((size_t)64 << 20)};
    assert_true(tw_register_all(r.ctx));
    r.module = tw_import_onnx(r.ctx, path, NULL);
    r.text = r.module ? tw_print(r.ctx, r.module, NULL) : all_diagnostics(r.ctx);
    return r;
}

static void external_data(void **state)
{
    (void)state;
    static const char *const good[][3] = {{"data.bin", NULL, NULL},
                                          {"data.bin", "0", "8"},
                                          {"./sub/../data.bin", NULL, NULL},
                                          {"sub//./deep.bin", NULL, "8"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        imported r = import_external(good[i][0], good[i][1], good[i][2]);
        if (i == 2) /* "..", even when it comes back */
            expect_error(&r, "leaves the model's directory");
        else
            expect_text(&r, "module @m ", "dense<[1.0, 2.0]>");
        release(&r);
    }
    imported r = import_external("data.bin", "8", "8");
    expect_text(&r, "dense<[3.0, 4.0]>");
    release(&r);
}

static void attacks(void **state)
{
    (void)state;
    char absolute[256];
    path_of(absolute, sizeof absolute, "secret.bin");
    const char *const cases[][4] = {
        {"../secret.bin", NULL, NULL, "leaves the model's directory"},
        {"sub/../../secret.bin", NULL, NULL, "leaves the model's directory"},
        {absolute, NULL, NULL, "absolute path"},
        {"link.bin", NULL, NULL, "symbolic link"},
        {"up/secret.bin", NULL, NULL, "symbolic link"},
        {"hard.bin", NULL, NULL, "hard link"},
        {"pipe", NULL, NULL, "not a regular file"},
        {"sub", NULL, NULL, "directory"},
        {"", NULL, NULL, "has no name"},
        {"none.bin", NULL, NULL, "No such file"},
        {"data.bin", "12", NULL, "bytes 12 to 20"},
        {"data.bin", "18446744073709551615", NULL, "which has 16"},
        {"data.bin", "99999999999999999999", NULL, "no valid offset"},
        {"data.bin", "-4", NULL, "no valid offset"},
        {"data.bin", "0", "12", "declared to have 12"},
        {NULL, NULL, NULL, "without a location"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        imported r = import_external(cases[i][0], cases[i][1], cases[i][2]);
        expect_error(&r, "m.onnx: error: tensor 'w'", cases[i][3]);
        release(&r);
    }
}

static void files(void **state)
{
    (void)state;
    char path[256];
    static const char *const cases[][2] = {{"none.onnx", "No such file"},
                                           {"model", "is a directory"},
                                           {"model/pipe", "not a regular file"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_context *ctx = tw_context_create((size_t)16 << 20);
        path_of(path, sizeof path, cases[i][0]);
        assert_true(tw_register_all(ctx));
        assert_null(tw_import_onnx(ctx, path, NULL));
        assert_non_null(strstr(all_diagnostics(ctx), cases[i][1]));
        tw_context_destroy(ctx);
    }
}

/* A model in memory has no directory. */
static void external_data_of_memory(void **state)
{
    (void)state;
    pb graph = {0}, t = {0}, entry = {0};
    pb_int(&t, 1, 2);
    pb_int(&t, 2, ONNX_FLOAT);
    pb_text(&t, 8, "w");
    pb_text(&entry, 1, "location");
    pb_text(&entry, 2, "data.bin");
    pb_message(&t, 13, entry);
    pb_int(&t, 14, 1);
    onnx_add_node(&graph, onnx_node("Add", "x,w", "y"));
    onnx_add_initializer(&graph, t);
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
    imported r = import_model(onnx_model(graph, 13));
    expect_error(&r, "model in memory cannot have external data");
    release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(external_data),
        cmocka_unit_test(attacks),
        cmocka_unit_test(files),
        cmocka_unit_test(external_data_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
