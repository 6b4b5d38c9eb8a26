# tw_embed(TARGET FILE NAME): the bytes of a file as `const char NAME[]`, closed by a zero, with
# `const size_t NAME_size`, made at build time.
function(tw_embed target file name)
  cmake_path(ABSOLUTE_PATH file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFILE=${file} -DNAME=${name} -DOUT=${source} -P
            ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
