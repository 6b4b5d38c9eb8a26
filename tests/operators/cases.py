"""All cases, from the tables of each family of operators."""
import cases_attention
import cases_broadcast
import cases_image
import cases_linear
import cases_ml
import cases_norm
import cases_onnx
import cases_quant
import cases_trees


def all_cases():
    for family in (cases_attention, cases_broadcast, cases_image, cases_linear, cases_ml,
                   cases_norm, cases_onnx, cases_quant, cases_trees):
        yield from family.cases()
