/* imports.h: the C functions that compiled code may call. */
#ifndef TW_RUNTIME_IMPORTS_H
#define TW_RUNTIME_IMPORTS_H

#include "tilewright/model.h"
#include "tilewright/runtime.h"

/* Sets the slots of the model's imports. Fails when there is one that this runtime lacks. */
tw_status tw_imports_bind(const tw_abi_model *model);

#endif
