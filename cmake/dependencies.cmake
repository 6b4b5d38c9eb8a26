# What the build needs from the system; scripts/setup.sh installs it.
#
#   tw_llvm   LLVM 19: its C API with the X86, AArch64 and NVPTX code generators
#   tw_lld    lld's ELF linker as a library
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c REQUIRED)
pkg_check_modules(XXHASH REQUIRED libxxhash) # as a header: XXH_INLINE_ALL
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
if(TW_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

find_program(LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
function(tw_llvm_config out)
  execute_process(COMMAND ${LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
tw_llvm_config(LLVM_INCLUDE --includedir)
tw_llvm_config(LLVM_LIBDIR --libdir)

add_library(tw_llvm INTERFACE)
target_include_directories(tw_llvm SYSTEM INTERFACE ${LLVM_INCLUDE})
if(TW_LLVM_STATIC)
  # `lto` and `option` are lld's. `--system-libs` would add z3 and xml2, which nothing
  # here uses, and Polly is replaced by a stub.
  set(components x86 aarch64 nvptx passes irreader bitwriter target lto option)
  tw_llvm_config(libs --link-static --libnames ${components})
  string(REPLACE " " ";" libs "${libs}")
  list(FILTER libs EXCLUDE REGEX "Polly")
  list(TRANSFORM libs PREPEND "${LLVM_LIBDIR}/")
  target_link_libraries(tw_llvm INTERFACE ${libs} PkgConfig::ZLIB PkgConfig::ZSTD Threads::Threads
                        ${CMAKE_DL_LIBS} m rt)
  if(NOT TW_SANITIZE)
    target_link_options(tw_llvm INTERFACE -static-libstdc++ -static-libgcc)
  endif()
else()
  find_library(LLVM_SHARED NAMES LLVM-19 PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
  target_link_libraries(tw_llvm INTERFACE ${LLVM_SHARED} Threads::Threads ${CMAKE_DL_LIBS} m)
endif()

find_library(LLD_ELF lldELF PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
find_library(LLD_COMMON lldCommon PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
add_library(tw_lld INTERFACE)
target_link_libraries(tw_lld INTERFACE ${LLD_ELF} ${LLD_COMMON} tw_llvm PkgConfig::ZLIB
                      PkgConfig::ZSTD)
if(TW_LLVM_STATIC)
  # lld's driver initialises every target that LLVM was built with.
  tw_llvm_config(targets --targets-built)
  string(REPLACE " " ";" targets "${targets}")
  list(REMOVE_ITEM targets X86 AArch64 NVPTX)
  list(TRANSFORM targets REPLACE "(.+)" "TARGET(\\1)")
  list(JOIN targets "\n" TW_STUB_TARGETS)
  configure_file(cmake/lld_stubs.c.in lld_stubs.c @ONLY)
  add_library(tw_lld_stubs STATIC ${CMAKE_CURRENT_BINARY_DIR}/lld_stubs.c)
  target_link_libraries(tw_lld INTERFACE tw_lld_stubs)
endif()
