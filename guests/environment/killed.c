// Prints lines with long computing and nothing else between them, and ends by a signal such as others send.
// Arguments: lines.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    int lines = count > 1 ? atoi(words[1]) : 1;
    for (int line = 0; line < lines; line++) {
        for (volatile long step = 0; step < 400000000; step++) {
        }
        dprintf(1, "line %d\n", line);
    }
    kill(getpid(), SIGTERM);
    return 1;
}
