"""odd_values.py PREFIX: files of values: PREFIX.one.pb, .two.pb and .three.pb are sequences,
PREFIX.beside.pb a tensor whose data lies elsewhere."""
import sys

import numpy as np
from onnx import TensorProto, numpy_helper


def write(name, message):
    with open(f"{sys.argv[1]}.{name}.pb", "wb") as file:
        file.write(message.SerializeToString())


one, two = np.ones((1, 3), np.float32), np.full((2, 3), 2, np.float32)
write("one", numpy_helper.from_list([one], "s"))
write("two", numpy_helper.from_list([one, two], "s"))
write("three", numpy_helper.from_list([one, two, np.concatenate([one, two])], "s"))
beside = TensorProto(dims=[3], data_type=TensorProto.FLOAT, name="b",
                     data_location=TensorProto.EXTERNAL)
beside.external_data.add(key="location", value="data.bin")
write("beside", beside)
