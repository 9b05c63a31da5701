// Memory that is shared with whoever attaches it.

#include "calls.h"
#include <sys/shm.h>

int main(void)
{
    int segment = CALL(shmget, IPC_PRIVATE, 5000, 0600);
    char *memory = (char *)CALL(shmat, segment, NULL, 0);
    must_be(memory != (char *)-1);
    strcpy(memory, "in common");
    char *other = (char *)CALL(shmat, segment, NULL, SHM_RDONLY);
    must_be(other != (char *)-1 && other != memory);
    printf("%s\n", other);
    CALL(shmat, segment, memory, 0);
    CALL(shmdt, memory);
    CALL(shmdt, memory);
    must_be(shmctl(segment, IPC_RMID, NULL) == 0);
    printf("%s\n", other);
    CALL(shmat, 0x7fffffff, NULL, 0);
    return 0;
}
