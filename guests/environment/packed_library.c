/* A library that a program is linked with, and, with another name for its function, one that it opens. */
#ifdef PLUGIN
int plugged(int number)
{
    return number + 1;
}
#else
int twice(int number);

int twice(int number)
{
    return 2 * number;
}
#endif
