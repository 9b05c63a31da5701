// One input stream read by all threads, character by character, by lines and by
// blocks: who gets what is decided by the stream's lock. And one temporary file
// that all write to, reread at the end.
#include "../transcript.h"

static FILE *input;
static FILE *output;
static uint64_t got[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    char text[32];
    for (int round = 0;; round++) {
        switch (round % 4) {
        case 0: {
            int byte = getc(input);
            if (byte == EOF)
                return NULL;
            got[who] = fold(got[who], byte);
            break;
        }
        case 1:
            if (fgets(text, sizeof text, input) == NULL)
                return NULL;
            got[who] = fold(got[who], strlen(text));
            break;
        case 2: {
            size_t count = fread(text, 1, 7, input);
            if (count == 0)
                return NULL;
            got[who] = fold(got[who], text[count - 1]);
            break;
        }
        default: {
            int value = -1;
            if (fscanf(input, "%d", &value) == EOF)
                return NULL;
            got[who] = fold(got[who], value);
        }
        }
        must_be(fprintf(output, "%d:%d ", who, round) > 0);
        jitter();
    }
}

// THREADS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    must_be((input = tmpfile()) != NULL);
    must_be((output = tmpfile()) != NULL);
    for (int line = 0; line < 500; line++)
        fprintf(input, "%d line of text\n", line * 37 % 1000);
    rewind(input);
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        printf("got %d %016llx\n", who, (unsigned long long)got[who]);
    uint64_t hash = 0;
    rewind(output);
    for (int byte = getc(output); byte != EOF; byte = getc(output))
        hash = fold(hash, byte);
    printf("written %016llx\n", (unsigned long long)hash);
    fclose(input);
    fclose(output);
    return 0;
}
