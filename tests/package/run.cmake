# Installs the build tree BUILD below WORK, moves the installation, and builds and runs CONSUMER
# against it: through the CMake package files, and through pkg-config. Then the examples, which build
# by themselves as well.
set(prefix ${WORK}/moved)
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --strip)
file(RENAME ${WORK}/prefix ${prefix})

run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/consumer -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/use_runtime)
run(${WORK}/consumer/use_runtime_static)
run(${WORK}/consumer/use_compiler)

set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
foreach(name runtime compiler)
  execute_process(COMMAND pkg-config --cflags --libs tilewright-${name}
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(cc ${CONSUMER}/use_${name}.c -o ${WORK}/${name} ${flags})
  run(${WORK}/${name})
endforeach()

foreach(example dialect ocr)
  run(${CMAKE_COMMAND} -S ${EXAMPLES}/${example} -B ${WORK}/${example}
      -DCMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
endforeach()
run(${prefix}/bin/tilewright-opt --load-plugin ${WORK}/dialect/libpoly.so --list-passes)

# A model in a program, with nothing of tilewright but an object file.
file(COPY ${EXAMPLES}/embed DESTINATION ${WORK})
run(make -C ${WORK}/embed TILEWRIGHT=${prefix}/bin/tilewright MODEL=${MODEL})
run(${WORK}/embed/embed)

# The runtime goes into small places.
file(SIZE ${prefix}/${LIBDIR}/libtilewright_runtime.so size)
if(size GREATER 300000)
  message(FATAL_ERROR "libtilewright_runtime.so has ${size} bytes, above 300000")
endif()
message("libtilewright_runtime.so: ${size} bytes")
