/* Many threads at once that do nothing: what a live thread costs in memory.
 *
 *   idle [-t THREADS]
 *
 * Each thread locks a mutex, says that it is there and waits. When all are
 * there, the process's peak of resident memory is read and printed. */
#include "kernel.h"

#define IDLE_THREADS_MAX 4096

static struct {
	pthread_mutex_t lock;
	pthread_cond_t arrived, leave;
	long waiting;
	int over;
} shared = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };

static void *idle(void *unused)
{
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	shared.waiting++;
	KERNEL_DO(pthread_cond_signal(&shared.arrived));
	while (!shared.over)
		KERNEL_DO(pthread_cond_wait(&shared.leave, &shared.lock));
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
	return unused;
}

static long status_kib(const char *field)
{
	char line[256];
	size_t length = strlen(field);
	long value = -1;
	FILE *status = fopen("/proc/self/status", "r");
	if (status == NULL)
		kernel_fail(2, "idle: /proc/self/status can't be read");
	while (value < 0 && fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, field, length) == 0 && line[length] == ':')
			value = strtol(line + length + 1, NULL, 10);
	fclose(status);
	return value;
}

int main(int argc, char **argv)
{
	long threads = 500;
	int option;
	while ((option = getopt(argc, argv, "t:")) != -1) {
		if (option != 't')
			kernel_fail(2, "usage: idle [-t threads]");
		threads = kernel_number("idle", optarg, 1, IDLE_THREADS_MAX);
	}
	pthread_t *handles = kernel_memory(threads, sizeof *handles);
	pthread_attr_t attributes;
	KERNEL_DO(pthread_attr_init(&attributes));
	KERNEL_DO(pthread_attr_setstacksize(&attributes, 64 * 1024));
	for (long t = 0; t < threads; t++)
		KERNEL_DO(pthread_create(&handles[t], &attributes, idle, NULL));
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	while (shared.waiting < threads)
		KERNEL_DO(pthread_cond_wait(&shared.arrived, &shared.lock));
	long peak = status_kib("VmHWM"), own = status_kib("RssAnon");
	shared.over = 1;
	KERNEL_DO(pthread_cond_broadcast(&shared.leave));
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
	for (long t = 0; t < threads; t++)
		KERNEL_DO(pthread_join(handles[t], NULL));
	KERNEL_VERIFY(peak > 0 && own > 0, "the status file has no VmHWM");
	printf("idle threads=%ld vmhwm_kib=%ld rssanon_kib=%ld\n", threads, peak, own);
	return 0;
}
