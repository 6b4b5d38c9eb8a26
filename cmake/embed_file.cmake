# Writes OUT, a C source with the bytes of FILE: see embed.cmake.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include <stddef.h>
extern const char ${NAME}[];
extern const size_t ${NAME}_size;
const char ${NAME}[] = {${bytes}0};
const size_t ${NAME}_size = sizeof ${NAME} - 1;
")
