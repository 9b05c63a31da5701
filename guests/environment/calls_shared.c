// Memory that is shared with whoever attaches it: a recording can't know what they write there.

#include "calls.h"
#include <sys/shm.h>

int main(void)
{
    int segment = CALL(shmget, IPC_PRIVATE, 5000, 0600);
    fflush(stdout);
    char *memory = (char *)CALL(shmat, segment, NULL, 0);
    must_be(memory != (char *)-1);
    strcpy(memory, "in common");
    must_be(shmctl(segment, IPC_RMID, NULL) == 0);
    printf("%s\n", memory);
    return 0;
}
