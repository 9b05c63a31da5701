// Functions of libc that look for an end, and those that print and scan: each accesses what it must look at, and no more.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "twins.h"
#include <stdarg.h>
#include <strings.h>
#include <wchar.h>

// The text has as many characters and an end.
#define END 40

static _Alignas(64) volatile char target[256];
static char like[256], elsewhere[256];
static char *end, *rest, *line;
static size_t room;
static const char *numbers = "12 34";
static FILE *null, *digits;
static struct tm parts;
static time_t now;
static int at;
// What stands there before the threads begin.
static char before;
// Only one of the threads writes these.
static volatile long found;
static int scanned;

static char *text(void)
{
    return (char *)target;
}

static wchar_t *wide(void)
{
    return (wchar_t *)text();
}

static void mark(int where)
{
    target[where] = '#';
}

static void put(const char *what)
{
    memset(text(), 0, sizeof target);
    strcpy(text(), what);
}

static void put_wide(const wchar_t *what)
{
    memset(text(), 0, sizeof target);
    wcscpy(wide(), what);
}

static int listed(char *to, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(to, size, format, arguments); // race listed
    va_end(arguments);
    return count;
}

static void *do_strlen(void *argument)
{
    found = (long)strlen(text()); // race strlen
    return argument;
}

static void *do_strnlen(void *argument)
{
    found = (long)strnlen(text(), 20); // race strnlen
    return argument;
}

static void *do_strchr(void *argument)
{
    found = strchr(text(), '#') != NULL; // race strchr
    return argument;
}

static void *do_strchr_none(void *argument)
{
    found = strchr(text(), '#') != NULL; // race strchr_none
    return argument;
}

static void *do_strrchr(void *argument)
{
    found = strrchr(text(), '#') != NULL; // race strrchr
    return argument;
}

static void *do_strchrnul(void *argument)
{
    found = *strchrnul(text(), '#'); // race strchrnul
    return argument;
}

static void *do_rawmemchr(void *argument)
{
    found = rawmemchr(text(), '#') != NULL; // race rawmemchr
    return argument;
}

static void *do_memchr(void *argument)
{
    found = memchr(text(), '#', 20) != NULL; // race memchr
    return argument;
}

static void *do_memchr_found(void *argument)
{
    found = memchr(text(), '#', 200) != NULL; // race memchr_found
    return argument;
}

static void *do_memrchr(void *argument)
{
    found = memrchr(text(), '#', 60) != NULL; // race memrchr
    return argument;
}

static void *do_strcmp(void *argument)
{
    found = strcmp(text(), like); // race strcmp
    return argument;
}

static void *do_strcmp_other(void *argument)
{
    found = strcmp(like, text()); // race strcmp_other
    return argument;
}

static void *do_strncmp(void *argument)
{
    found = strncmp(text(), like, 20); // race strncmp
    return argument;
}

static void *do_strcasecmp(void *argument)
{
    found = strcasecmp(text(), like); // race strcasecmp
    return argument;
}

static void *do_strncasecmp(void *argument)
{
    found = strncasecmp(text(), like, 20); // race strncasecmp
    return argument;
}

static void *do_strcoll(void *argument)
{
    found = strcoll(text(), like); // race strcoll
    return argument;
}

static void *do_strspn(void *argument)
{
    found = (long)strspn(text(), "xyz"); // race strspn
    return argument;
}

static void *do_strspn_set(void *argument)
{
    found = (long)strspn(like, text()); // race strspn_set
    return argument;
}

static void *do_strcspn(void *argument)
{
    found = (long)strcspn(text(), "#!"); // race strcspn
    return argument;
}

static void *do_strpbrk(void *argument)
{
    found = strpbrk(text(), "#!") != NULL; // race strpbrk
    return argument;
}

static void *do_strstr(void *argument)
{
    found = strstr(text(), "#xx") != NULL; // race strstr
    return argument;
}

static void *do_strstr_none(void *argument)
{
    found = strstr(text(), "#xx") != NULL; // race strstr_none
    return argument;
}

static void *do_strcasestr(void *argument)
{
    found = strcasestr(text(), "#XX") != NULL; // race strcasestr
    return argument;
}

static void *do_memmem(void *argument)
{
    found = memmem(text(), 60, "#xx", 3) != NULL; // race memmem
    return argument;
}

static void *do_strtol(void *argument)
{
    found = strtol(text(), NULL, 10); // race strtol
    return argument;
}

static void *do_strtoul(void *argument)
{
    found = (long)strtoul(text(), NULL, 16); // race strtoul
    return argument;
}

static void *do_strtoll(void *argument)
{
    found = (long)strtoll(text(), NULL, 0); // race strtoll
    return argument;
}

static void *do_atoi(void *argument)
{
    found = atoi(text()); // race atoi
    return argument;
}

static void *do_atol(void *argument)
{
    found = atol(text()); // race atol
    return argument;
}

static void *do_strtod(void *argument)
{
    found = (long)strtod(text(), &end); // race strtod
    return argument;
}

static void *do_sscanf(void *argument)
{
    found = sscanf(text(), "%d", &scanned); // race sscanf
    return argument;
}

static void *do_strdup(void *argument)
{
    free(strdup(text())); // race strdup
    return argument;
}

static void *do_strndup(void *argument)
{
    free(strndup(text(), 20)); // race strndup
    return argument;
}

static void *do_strcpy(void *argument)
{
    strcpy(elsewhere, text()); // race strcpy
    return argument;
}

static void *do_strncpy(void *argument)
{
    strncpy(elsewhere, text(), 20); // race strncpy
    return argument;
}

static void *do_strcat(void *argument)
{
    elsewhere[0] = 0, strcat(elsewhere, text()); // race strcat
    return argument;
}

static void *do_wcslen(void *argument)
{
    found = (long)wcslen(wide()); // race wcslen
    return argument;
}

static void *do_wcschr(void *argument)
{
    found = wcschr(wide(), L'b') != NULL; // race wcschr
    return argument;
}

static void *do_puts(void *argument)
{
    must_be(fputs(text(), null) >= 0); // race puts
    return argument;
}

static void *do_fprintf(void *argument)
{
    must_be(fprintf(null, "%d %s", 1, text()) > 0); // race fprintf
    return argument;
}

static void *do_fprintf_some(void *argument)
{
    must_be(fprintf(null, "%f %.*s", 0.5, 20, text()) > 0); // race fprintf_some
    return argument;
}

static void *do_snprintf_of(void *argument)
{
    found = snprintf(elsewhere, 2, "%s", text()); // race snprintf_of
    return argument;
}

static void *do_snprintf_stacked(void *argument)
{
    found = snprintf(NULL, 0, "%d%d%d%f%s", 1, 2, 3, 4.0, text()); // race snprintf_stacked
    return argument;
}

static void *do_vsnprintf_of(void *argument)
{
    found = listed(elsewhere, 200, "%d%d%d%d%s", 1, 2, 3, 4, text());
    return argument;
}

static void *do_snprintf(void *argument)
{
    found = snprintf(text(), 100, "%d", 12345); // race snprintf
    return argument;
}

static void *do_snprintf_cut(void *argument)
{
    found = snprintf(text(), 4, "%d", 12345); // race snprintf_cut
    return argument;
}

static void *do_sprintf(void *argument)
{
    found = sprintf(text(), "%d", 12345); // race sprintf
    return argument;
}

static void *do_vsnprintf(void *argument)
{
    found = listed(text(), 100, "%d", 12345);
    return argument;
}

static void *do_strftime(void *argument)
{
    found = (long)strftime(text(), 100, "%Y", &parts); // race strftime
    return argument;
}

static void *do_sscanf_number(void *argument)
{
    found = sscanf(numbers, "%*d %d", (int *)text()); // race sscanf_number
    return argument;
}

static void *do_sscanf_text(void *argument)
{
    found = sscanf(numbers, "%s", text()); // race sscanf_text
    return argument;
}

static void *do_fscanf(void *argument)
{
    found = fscanf(digits, "%4s", text()); // race fscanf
    return argument;
}

static void *do_strtol_end(void *argument)
{
    found = strtol(numbers, (char **)text(), 10); // race strtol_end
    return argument;
}

static void *do_strsep(void *argument)
{
    rest = text(), found = strsep(&rest, "#") != NULL; // race strsep
    return argument;
}

static void *do_strtok_r(void *argument)
{
    found = strtok_r(text(), "#", &rest) != NULL; // race strtok_r
    return argument;
}

static void *do_gmtime_r(void *argument)
{
    found = gmtime_r(&now, (struct tm *)text()) != NULL; // race gmtime_r
    return argument;
}

static void *do_ctime_r(void *argument)
{
    found = ctime_r(&now, text()) != NULL; // race ctime_r
    return argument;
}

static void *do_getline(void *argument)
{
    found = getline(&line, &room, digits); // race getline
    return argument;
}

static void *do_untold(void *argument)
{
    found = (long)mbstowcs(NULL, like, 0);
    return argument;
}

static void *do_numbered(void *argument)
{
    found = snprintf(elsewhere, 200, "%2$s %1$d", 1, like);
    return argument;
}

static void *byte(void *argument)
{
    target[at] = 'y'; // race byte
    return argument;
}

// What stands there already: what is found is the same, whoever comes first.
static void *again(void *argument)
{
    target[at] = before; // race again
    return argument;
}

static void *byte_of_line(void *argument)
{
    ((volatile char *)line)[at] = 'y'; // race byte_of_line
    return argument;
}

static void set_up(const char *name)
{
    memset(text(), 'x', END);
    memset(like, 'x', END);
    now = 1000000000;
    must_be(gmtime_r(&now, &parts) != NULL);
    if (is(name, "strchr"))
        mark(30);
    if (is(name, "strrchr"))
        mark(30);
    if (is(name, "strchrnul"))
        mark(30);
    if (is(name, "rawmemchr"))
        mark(30), mark(50);
    if (is(name, "memchr_found"))
        mark(30);
    if (is(name, "memrchr"))
        mark(30);
    if (is(name, "strcmp"))
        mark(25);
    if (is(name, "strcmp_other"))
        mark(25);
    if (is(name, "strcasecmp"))
        mark(25);
    if (is(name, "strcoll"))
        mark(25);
    if (is(name, "strspn"))
        mark(30);
    if (is(name, "strspn_set"))
        target[1] = 0;
    if (is(name, "strcspn"))
        mark(30);
    if (is(name, "strpbrk"))
        mark(30);
    if (is(name, "strstr"))
        mark(30);
    if (is(name, "strcasestr"))
        mark(30);
    if (is(name, "memmem"))
        mark(30);
    if (is(name, "strtol"))
        put("  -123x");
    if (is(name, "strtoul"))
        put("0x1Fg");
    if (is(name, "strtoll"))
        put("0778");
    if (is(name, "atoi"))
        put("123");
    if (is(name, "atol"))
        put("123 ");
    if (is(name, "strtod"))
        put("1.25e2x");
    if (is(name, "sscanf"))
        put("12 more");
    if (is(name, "wcslen"))
        put_wide(L"abc");
    if (is(name, "wcschr"))
        put_wide(L"abc");
    if (is(name, "strsep"))
        mark(30);
    if (is(name, "strtok_r"))
        mark(30);
}

// CASE inside|beside: the byte is the last one that the function accesses, or the one behind it.
int main(int argc, char **argv)
{
    static const struct {
        struct twins twins;
        int last;
    } all[] = {
        {{"strlen", do_strlen, byte}, END},
        {{"strnlen", do_strnlen, byte}, 19},
        {{"strchr", do_strchr, byte}, 30},
        {{"strchr_none", do_strchr_none, byte}, END},
        {{"strrchr", do_strrchr, byte}, END},
        {{"strchrnul", do_strchrnul, byte}, 30},
        {{"rawmemchr", do_rawmemchr, byte}, 30},
        {{"memchr", do_memchr, byte}, 19},
        {{"memchr_found", do_memchr_found, byte}, 30},
        {{"memrchr", do_memrchr, byte}, 59},
        {{"strcmp", do_strcmp, byte}, 25},
        {{"strcmp_other", do_strcmp_other, byte}, 25},
        {{"strncmp", do_strncmp, byte}, 19},
        {{"strcasecmp", do_strcasecmp, byte}, 25},
        {{"strncasecmp", do_strncasecmp, byte}, 19},
        {{"strcoll", do_strcoll, byte}, 25},
        {{"strspn", do_strspn, byte}, 30},
        {{"strspn_set", do_strspn_set, byte}, 1},
        {{"strcspn", do_strcspn, byte}, 30},
        {{"strpbrk", do_strpbrk, byte}, 30},
        {{"strstr", do_strstr, byte}, 32},
        {{"strstr_none", do_strstr_none, byte}, END},
        {{"strcasestr", do_strcasestr, byte}, 32},
        {{"memmem", do_memmem, again}, 32},
        {{"strtol", do_strtol, byte}, 6},
        {{"strtoul", do_strtoul, byte}, 4},
        {{"strtoll", do_strtoll, byte}, 3},
        {{"atoi", do_atoi, byte}, 3},
        {{"atol", do_atol, byte}, 3},
        {{"strtod", do_strtod, byte}, 6},
        {{"sscanf", do_sscanf, byte}, 7},
        {{"strdup", do_strdup, byte}, END},
        {{"strndup", do_strndup, byte}, 19},
        {{"strcpy", do_strcpy, byte}, END},
        {{"strncpy", do_strncpy, byte}, 19},
        {{"strcat", do_strcat, byte}, END},
        {{"wcslen", do_wcslen, byte}, 15},
        {{"wcschr", do_wcschr, byte}, 7},
        {{"puts", do_puts, byte}, END},
        {{"fprintf", do_fprintf, byte}, END},
        {{"fprintf_some", do_fprintf_some, byte}, 19},
        {{"snprintf_of", do_snprintf_of, byte}, END},
        {{"snprintf_stacked", do_snprintf_stacked, byte}, END},
        {{"vsnprintf_of", do_vsnprintf_of, byte}, END},
        {{"snprintf", do_snprintf, byte}, 5},
        {{"snprintf_cut", do_snprintf_cut, byte}, 3},
        {{"sprintf", do_sprintf, byte}, 5},
        {{"vsnprintf", do_vsnprintf, byte}, 5},
        {{"strftime", do_strftime, byte}, 4},
        {{"sscanf_number", do_sscanf_number, byte}, 3},
        {{"sscanf_text", do_sscanf_text, byte}, 2},
        {{"fscanf", do_fscanf, byte}, 4},
        {{"strtol_end", do_strtol_end, byte}, 7},
        {{"strsep", do_strsep, again}, 30},
        {{"strtok_r", do_strtok_r, again}, 30},
        {{"gmtime_r", do_gmtime_r, byte}, 35},
        {{"ctime_r", do_ctime_r, byte}, 25},
        {{"getline", do_getline, byte_of_line}, 10},
        {{"untold", do_untold, byte}, 0},
        {{"numbered", do_numbered, byte}, 0},
    };
    const char *name = word(argc, argv, 1, "");
    static char file[] = "123456789\n";
    // No call: what is printed depends on the race.
    static char printed[1000];
    null = fmemopen(printed, sizeof printed, "w");
    digits = fmemopen(file, sizeof file - 1, "r");
    line = malloc(room = 100);
    must_be(null != NULL && digits != NULL && line != NULL);
    set_up(name);
    for (size_t one = 0; one < sizeof all / sizeof *all; one++)
        if (is(all[one].twins.name, name)) {
            at = all[one].last + is(word(argc, argv, 2, ""), "beside");
            before = target[at];
            side_by_side(all[one].twins.one, all[one].twins.other, NULL);
            printf("%s\n", name);
            return 0;
        }
    return 98;
}
