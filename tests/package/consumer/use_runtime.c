/* A program that uses the installed runtime. */
#include <stdio.h>

#include <tilewright/runtime.h>

int main(void)
{
    printf("%u threads, %s\n", tw_default_threads(), tw_host_cpu());
    return tw_default_threads() > 0 ? 0 : 1;
}
