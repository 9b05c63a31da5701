// Streams shared by threads: the order of whole calls decides the output. With
// `locked`, several calls are held together by flockfile, one of them blocking.
#include "../transcript.h"

static const char *how;
static int rounds;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    char text[64];
    for (int round = 0; round < rounds; round++) {
        int call = (who + round) % 8;
        int locked = is(how, "locked");
        snprintf(text, sizeof text, "%d.%d\n", who, round);
        if (locked && round % 2)
            flockfile(stdout);
        else if (locked)
            while (ftrylockfile(stdout) != 0)
                jitter();
        switch (call) {
        case 0:
            printf("printf %d.%d\n", who, round);
            break;
        case 1:
            puts("puts");
            break;
        case 2:
            fputs(text, stdout);
            break;
        case 3:
            must_be(fwrite(text, 1, strlen(text), stdout) == strlen(text));
            break;
        case 4:
            putchar('a' + who % 26);
            break;
        case 5:
            fprintf(stdout, "fprintf %d.%d\n", who, round);
            break;
        case 6:
            putc('A' + who % 26, stdout);
            break;
        default:
            fputc('0' + who % 10, stdout);
            fflush(stdout);
        }
        if (locked) {
            putchar_unlocked('|');
            funlockfile(stdout);
        }
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS plain|locked
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 40);
    how = word(argc, argv, 3, "plain");
    crew(threads, worker);
    putchar('\n');
    return 0;
}
