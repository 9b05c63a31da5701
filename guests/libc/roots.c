// What the loader tells of: collectors of garbage look through the writable segments of all that it names. There are none
// but those of the program and its libraries.
#include "../transcript.h"
#include <link.h>

static int tell(struct dl_phdr_info *info, size_t size, void *given)
{
    (void)size, (void)given;
    size_t writable = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_W)
            writable++;
    const char *base = strrchr(info->dlpi_name, '/');
    if (writable)
        printf("%s %zu\n", base ? base + 1 : info->dlpi_name, writable);
    return 0;
}

int main(void)
{
    dl_iterate_phdr(tell, NULL);
    return 0;
}
