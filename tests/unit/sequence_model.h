/* sequence_model.h: a model of sequences whose lengths only the run knows.
 *
 *   grown = s; repeat `trips` times: grown.insert(at the front, -x)
 *   y = grown[p]; all = concatenation of grown; first = grown without its element p
 *   back = maybe, an optional tensor */
#ifndef TESTS_UNIT_SEQUENCE_MODEL_H
#define TESTS_UNIT_SEQUENCE_MODEL_H

#include "onnx_model.h"

enum { SEQ_IN_S, SEQ_IN_X, SEQ_IN_TRIPS, SEQ_IN_P, SEQ_IN_MAYBE };
enum { SEQ_OUT_GROWN, SEQ_OUT_Y, SEQ_OUT_ALL, SEQ_OUT_FIRST, SEQ_OUT_BACK };

static inline pb sequence_model_body(void)
{
    pb body = {0};
    onnx_add_node(&body, onnx_node("Identity", "go", "more"));
    onnx_add_node(&body, onnx_node("Neg", "x", "negative"));
    pb concat = onnx_node("ConcatFromSequence", "parts", "joined");
    onnx_attr_int(&concat, "axis", 0);
    onnx_add_node(&body, onnx_node("SplitToSequence", "negative", "parts"));
    onnx_add_node(&body, concat);
    onnx_add_node(&body, onnx_node("SequenceInsert", "state,joined,front", "next"));
    pb_text(&body, 2, "body");
    onnx_add_input(&body, onnx_value("i", ONNX_INT64, ""));
    onnx_add_input(&body, onnx_value("go", ONNX_BOOL, ""));
    onnx_add_input(&body, onnx_sequence("state", ONNX_FLOAT, "?,3"));
    onnx_add_output(&body, onnx_value("more", ONNX_BOOL, ""));
    onnx_add_output(&body, onnx_sequence("next", ONNX_FLOAT, "?,3"));
    return body;
}

static inline pb sequence_model(void)
{
    static const int64_t zero;
    pb graph = {0}, loop = onnx_node("Loop", "trips,,s", "grown");
    onnx_attr_message(&loop, "body", 6, 5, sequence_model_body());
    onnx_add_node(&graph, loop);
    onnx_add_node(&graph, onnx_node("SequenceAt", "grown,p", "y"));
    pb concat = onnx_node("ConcatFromSequence", "grown", "all");
    onnx_attr_int(&concat, "axis", 0);
    onnx_add_node(&graph, concat);
    onnx_add_node(&graph, onnx_node("SequenceErase", "grown,p", "first"));
    onnx_add_node(&graph, onnx_node("Identity", "maybe", "back"));
    pb_text(&graph, 2, "sequences");
    onnx_add_initializer(&graph, onnx_tensor_raw("front", ONNX_INT64, DIMS(), &zero, sizeof zero));
    onnx_add_input(&graph, onnx_sequence("s", ONNX_FLOAT, "?,3"));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "k,3"));
    onnx_add_input(&graph, onnx_value("trips", ONNX_INT64, ""));
    onnx_add_input(&graph, onnx_value("p", ONNX_INT64, ""));
    onnx_add_input(&graph, onnx_optional("maybe", ONNX_FLOAT, "?"));
    onnx_add_output(&graph, onnx_sequence("grown", ONNX_FLOAT, "?,3"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "?,3"));
    onnx_add_output(&graph, onnx_value("all", ONNX_FLOAT, "?,3"));
    onnx_add_output(&graph, onnx_sequence("first", ONNX_FLOAT, "?,3"));
    onnx_add_output(&graph, onnx_optional("back", ONNX_FLOAT, "?"));
    return onnx_model(graph, 17);
}

#endif
