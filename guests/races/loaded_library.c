// The library of loaded.c.

void *write_it(void *where);

void *write_it(void *where)
{
    *(volatile int *)where = 2; // race library
    return where;
}
