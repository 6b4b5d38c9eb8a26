# How every source is compiled.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Only what the public headers declare is visible (they push default visibility); sections let the
# linker drop the parts of LLVM that nothing reaches. Truncation by snprintf is how names and
# messages are bounded: no warning for it.
add_compile_options(-Wall -Wextra -Wno-format-truncation -fvisibility=hidden
                    -ffunction-sections -fdata-sections)
# GCC guesses at these two, and wrongly once it has inlined.
add_compile_options($<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
                    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-clobbered>)
add_compile_definitions(_GNU_SOURCE)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)

# Floating point keeps IEEE meaning in the interpreter and in folding: no contraction to FMA that
# the source does not ask for.
add_compile_options(-ffp-contract=off)

if(TW_WERROR)
  add_compile_options(-Werror)
endif()

if(TW_SANITIZE)
  add_compile_options(-fsanitize=${TW_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${TW_SANITIZE})
  if(TW_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(TW_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(TW_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
