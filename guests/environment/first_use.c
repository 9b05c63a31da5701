// Threads that call the same function of libc for the first time: whoever comes first
// reads files or takes memory for all of them, under a lock that is libc's own.
#include "../transcript.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <grp.h>
#include <iconv.h>
#include <langinfo.h>
#include <libintl.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <syslog.h>
#include <wchar.h>

static int rounds;
static int done;
static const char *what;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static uint64_t fold_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = fold(hash, (unsigned char)*text);
    return hash;
}

static uint64_t time_zone(void)
{
    char room[100] = "";
    struct tm tm = { 0 };
    time_t now = time(NULL);
    if (is(what, "localtime_r"))
        must_be(localtime_r(&now, &tm) == &tm);
    else if (is(what, "gmtime_r"))
        must_be(gmtime_r(&now, &tm) == &tm);
    else if (is(what, "ctime_r"))
        must_be(ctime_r(&now, room) == room);
    else if (is(what, "strftime"))
        must_be(strftime(room, sizeof room, "%c %Z", &tm) > 0);
    else if (is(what, "timegm"))
        timegm(&tm);
    else if (is(what, "tzset"))
        tzset();
    else
        mktime(&tm);
    return fold_text((uint64_t)tm.tm_hour, room);
}

static int by_number(const void *a, const void *b)
{
    int one = *(const int *)a, other = *(const int *)b;
    return (one > other) - (one < other);
}

static uint64_t sorted(void)
{
    int many[1000];
    for (int i = 0; i < 1000; i++)
        many[i] = i * 7919 % 1000;
    qsort(many, 1000, sizeof *many, by_number);
    return (uint64_t)many[17];
}

static uint64_t letters(void)
{
    wchar_t wide = 0;
    mbstate_t state = { 0 };
    if (is(what, "iconv") || is(what, "iconv_latin")) {
        iconv_t way = iconv_open(is(what, "iconv") ? "UTF-16" : "LATIN2", "UTF-8");
        must_be(way != (iconv_t)-1);
        must_be(iconv_close(way) == 0);
        return 1;
    }
    if (is(what, "wide_stream")) {
        FILE *stream = fopen("/dev/null", "w");
        must_be(stream != NULL);
        fputwc(L'x', stream);
        return (uint64_t)fclose(stream);
    }
    if (is(what, "newlocale")) {
        locale_t mine = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
        must_be(mine != NULL);
        uselocale(mine);
        must_be(mbrtowc(&wide, "\xc3\xa4", 2, &state) == 2);
        uselocale(LC_GLOBAL_LOCALE);
        freelocale(mine);
        return (uint64_t)wide;
    }
    must_be(mbrtowc(&wide, "\xc3\xa4", 2, &state) == 2);
    return (uint64_t)wide;
}

static uint64_t messages(void)
{
    char room[200];
    if (is(what, "strerror"))
        return fold_text(0, strerror_r(ENOENT, room, sizeof room));
    if (is(what, "perror")) {
        errno = ENOENT;
        perror("perror");
        return 0;
    }
    return fold_text(fold_text(0, gettext("hello")), nl_langinfo(MON_1));
}

static uint64_t names(void)
{
    char room[4000];
    if (is(what, "getpwnam_r")) {
        struct passwd entry, *found = NULL;
        must(getpwnam_r("root", &entry, room, sizeof room, &found));
        return fold_text(0, found ? found->pw_dir : "none");
    }
    if (is(what, "getgrgid_r")) {
        struct group entry, *found = NULL;
        must(getgrgid_r(0, &entry, room, sizeof room, &found));
        return fold_text(0, found ? found->gr_name : "none");
    }
    if (is(what, "getservbyname_r")) {
        struct servent entry, *found = NULL;
        must(getservbyname_r("http", "tcp", &entry, room, sizeof room, &found));
        return (uint64_t)(found ? found->s_port : 0);
    }
    // Some arguments of these are on the stack.
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(80) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (is(what, "getnameinfo")) {
        char host[40], service[10];
        must(getnameinfo((struct sockaddr *)&address, sizeof address, host, sizeof host, service, sizeof service,
                         NI_NUMERICHOST | NI_NUMERICSERV));
        must_be(is(host, "127.0.0.1") && is(service, "80"));
        return fold_text(0, host);
    }
    struct hostent host, *answer = NULL;
    int why = 0;
    if (is(what, "gethostbyname2_r")) {
        must(gethostbyname2_r("127.0.0.1", AF_INET, &host, room, sizeof room, &answer, &why));
        must_be(answer == &host && host.h_length == sizeof address.sin_addr);
        return fold_text(0, host.h_name);
    }
    if (is(what, "gethostbyaddr_r")) {
        int error = gethostbyaddr_r(&address.sin_addr, sizeof address.sin_addr, AF_INET, &host, room, sizeof room, &answer, &why);
        must_be(answer == NULL ? why != 0 : answer == &host);
        return fold(fold(0, (uint64_t)error), (uint64_t)why);
    }
    struct addrinfo *found = NULL, wanted = { .ai_socktype = SOCK_STREAM };
    int error = getaddrinfo("localhost", "80", &wanted, &found);
    uint64_t result = (uint64_t)error;
    if (error == 0) {
        result = found->ai_addrlen;
        freeaddrinfo(found);
    }
    return result;
}

static uint64_t places(void)
{
    void *found[16];
    if (is(what, "backtrace"))
        return (uint64_t)backtrace(found, 16);
    if (is(what, "dlsym"))
        return dlsym(RTLD_DEFAULT, "printf") != NULL;
    syslog(LOG_DEBUG, "a line of a test");
    return 0;
}

static uint64_t use(void)
{
    static const struct {
        const char *what;
        uint64_t (*use)(void);
    } uses[] = {
        { "localtime_r", time_zone }, { "gmtime_r", time_zone }, { "ctime_r", time_zone }, { "strftime", time_zone },
        { "timegm", time_zone }, { "tzset", time_zone }, { "mktime", time_zone }, { "qsort", sorted },
        { "iconv", letters }, { "iconv_latin", letters }, { "wide_stream", letters }, { "newlocale", letters },
        { "mbrtowc", letters }, { "strerror", messages }, { "perror", messages }, { "gettext", messages },
        { "getpwnam_r", names }, { "getgrgid_r", names }, { "getservbyname_r", names }, { "getaddrinfo", names },
        { "getnameinfo", names }, { "gethostbyname2_r", names }, { "gethostbyaddr_r", names },
        { "backtrace", places }, { "dlsym", places }, { "syslog", places },
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (is(what, uses[i].what))
            return uses[i].use();
    return 0;
}

static void *worker(void *argument)
{
    uint64_t seen = 0;
    for (int round = 0; round < rounds; round++) {
        jitter();
        jitter();
        seen = fold(seen, use());
        // Where the thread's memory lies follows from what it took before.
        void *block = malloc(48);
        seen = fold(seen, (uintptr_t)block);
        free(block);
    }
    must(pthread_mutex_lock(&lock));
    note(&transcript, (uint64_t)(intptr_t)argument);
    transcript.hash = fold(transcript.hash, seen);
    done++;
    must(pthread_mutex_unlock(&lock));
    if (is(what, "pthread_exit"))
        pthread_exit(NULL);
    return NULL;
}

// THREADS ROUNDS WHAT
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 3);
    what = word(argc, argv, 3, "localtime_r");
    if (is(what, "mbrtowc") || is(what, "wide_stream"))
        must_be(setlocale(LC_ALL, "C.UTF-8") != NULL);
    crew(threads, worker);
    show("ends", &transcript);
    printf("done %d\n", done);
    return 0;
}
