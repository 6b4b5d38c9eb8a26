// lld_shim.cpp: lld's ELF linker as a C function. The only C++ of the tree: lld has no C interface.
#include "link/lld_shim.h"

#include <lld/Common/Driver.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <string>

LLD_HAS_DRIVER(elf)

tw_lld_result tw_lld_main(const char *const *args, size_t n_args, char *message, size_t size)
{
    std::string text;
    llvm::raw_string_ostream stream(text);
    lld::Result result = lld::lldMain(llvm::ArrayRef<const char *>(args, n_args), llvm::nulls(),
                                      stream, {{lld::Gnu, &lld::elf::link}});
    size_t len = text.size() < size ? text.size() : size - 1;
    memcpy(message, text.data(), len);
    message[len] = '\0';
    if (!result.canRunAgain)
        return TW_LLD_UNUSABLE;
    return result.retCode == 0 ? TW_LLD_OK : TW_LLD_FAILED;
}
