# tw_protobuf_c(TARGET ROOT FILE.proto...): compiles schemas with protoc-c into the build tree. The
# header of ROOT/a/b.proto is included as "a/b.pb-c.h".
function(tw_protobuf_c target root)
  foreach(proto ${ARGN})
    cmake_path(RELATIVE_PATH proto BASE_DIRECTORY ${root} OUTPUT_VARIABLE relative)
    string(REGEX REPLACE "\\.proto$" ".pb-c" stem "${relative}")
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${stem}.c)
    set(header ${CMAKE_CURRENT_BINARY_DIR}/${stem}.h)
    add_custom_command(
      OUTPUT ${source} ${header}
      COMMAND ${PROTOC_C} --proto_path=${root} --c_out=${CMAKE_CURRENT_BINARY_DIR} ${proto}
      DEPENDS ${proto} VERBATIM)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -w)
    target_sources(${target} PRIVATE ${source} ${header})
    list(APPEND made ${source} ${header})
  endforeach()
  add_custom_target(generated DEPENDS ${made}) # alone, for clang-tidy
  # SYSTEM: no warnings and lint of generated code.
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
