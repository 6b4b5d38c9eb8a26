/* main.c: a model inside a program: no model file, no runtime library, no threads.
 *
 *     tilewright compile MODEL -o model.o --emit object --header model.h [--shape NAME=1x3x224x224]
 *     cc -O2 main.c model.o -lm -o embed
 *
 * The generated header tells sizes and types at compile time, so that all memory is static here.
 * The model has one float input and one or two float outputs, all of fixed shapes. */
#include "model.h"

#ifndef MODEL_ARENA_SIZE
#error "the model's sizes are open; give SHAPE='--shape NAME=...' to make"
#endif

#include <stdio.h>
#include <stdlib.h>

static _Alignas(MODEL_ALIGN) unsigned char arena[MODEL_ARENA_SIZE + 1];
static MODEL_INPUT_0_TYPE input[MODEL_INPUT_0_COUNT];
static MODEL_OUTPUT_0_TYPE output[MODEL_OUTPUT_0_COUNT];

int main(void)
{
    for (long i = 0; i < MODEL_INPUT_0_COUNT; i++)
        input[i] = (MODEL_INPUT_0_TYPE)(i % 256 / 255.0);

    const void *inputs[MODEL_N_INPUTS] = {input};
    void *outputs[MODEL_N_OUTPUTS] = {output};
#if MODEL_N_OUTPUTS > 1
    static MODEL_OUTPUT_1_TYPE second[MODEL_OUTPUT_1_COUNT];
    outputs[1] = second;
#endif
    int code = model_run(inputs, outputs, arena);
    if (code) {
        fprintf(stderr, "the model failed with code %d\n", code);
        return EXIT_FAILURE;
    }
    long largest = 0;
    for (long i = 1; i < MODEL_OUTPUT_0_COUNT; i++)
        if (output[i] > output[largest])
            largest = i;
    printf("%s: element %ld of %ld is the largest: %g\n", MODEL_OUTPUT_0_NAME, largest,
           (long)MODEL_OUTPUT_0_COUNT, (double)output[largest]);
    return EXIT_SUCCESS;
}
