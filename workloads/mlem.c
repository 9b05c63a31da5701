/* Maximum-likelihood expectation maximisation: a picture from its projections,
 * the program of the 1996 ROLT paper. Threads take projection angles from a
 * shared counter; each projects the picture along its rays, compares with the
 * measurement and projects the ratios back. The back projections are added to
 * the shared correction under one mutex a row, and the likelihood under one of
 * its own, so the last bits depend on the order of the mutexes.
 *
 * -n is the side of the picture, a round is an iteration. */
#include "kernel.h"

struct row {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	double *correction;
};

static struct kernel kernel;
static long side, angles, rays; /* rays: of one angle */
static double *phantom, *picture, *sensitivity, *measured;
static struct row *rows;
static pthread_barrier_t barrier;

static struct {
	pthread_mutex_t lock;
	long next_angle;
	double likelihood;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static double last_likelihood;
static uint64_t digest;

/* One ray: where it enters, and its step from one line of pixels to the next. */
struct ray {
	int steep;   /* the lines are rows, else columns */
	double from; /* position across the first line */
	double step, weight;
};

static struct ray ray_of(long angle, long number)
{
	double turn = M_PI * (double)angle / (double)angles, s = sin(turn), c = cos(turn);
	double offset = (double)number - (double)(rays - 1) / 2, half = (double)(side - 1) / 2;
	struct ray ray = { .steep = fabs(c) > fabs(s) };
	double along = ray.steep ? c : s, across = ray.steep ? s : c;
	ray.step = across / along;
	ray.from = half + offset / along - ray.step * half;
	ray.weight = 1 / fabs(along);
	return ray;
}

/* The picture's sum along a ray, interpolated between the two nearest pixels of each line. */
static double project(const double *from, struct ray ray)
{
	double sum = 0;
	long stride_line = ray.steep ? side : 1, stride_across = ray.steep ? 1 : side;
	for (long line = 0; line < side; line++) {
		double place = ray.from + ray.step * (double)line;
		if (place < 0 || place >= (double)(side - 1))
			continue;
		long pixel = (long)place;
		double part = place - (double)pixel;
		const double *p = &from[line * stride_line + pixel * stride_across];
		sum += (1 - part) * p[0] + part * p[stride_across];
	}
	return sum * ray.weight;
}

static void project_back(double *to, struct ray ray, double value)
{
	long stride_line = ray.steep ? side : 1, stride_across = ray.steep ? 1 : side;
	value *= ray.weight;
	for (long line = 0; line < side; line++) {
		double place = ray.from + ray.step * (double)line;
		if (place < 0 || place >= (double)(side - 1))
			continue;
		long pixel = (long)place;
		double part = place - (double)pixel;
		double *p = &to[line * stride_line + pixel * stride_across];
		p[0] += (1 - part) * value;
		p[stride_across] += part * value;
	}
}

static long take_angle(void)
{
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	long angle = shared.next_angle < angles ? shared.next_angle++ : -1;
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
	return angle;
}

static void correct(long angle, double *mine)
{
	double likelihood = 0;
	memset(mine, 0, (size_t)(side * side) * sizeof *mine);
	for (long r = 0; r < rays; r++) {
		struct ray ray = ray_of(angle, r);
		double expected = project(picture, ray), wanted = measured[angle * rays + r];
		if (expected <= 0)
			continue;
		project_back(mine, ray, wanted / expected);
		likelihood += (wanted > 0 ? wanted * log(expected) : 0) - expected;
	}
	for (long n = 0; n < side; n++) {
		long r = (angle + n) % side;
		KERNEL_DO(pthread_mutex_lock(&rows[r].lock));
		for (long c = 0; c < side; c++)
			rows[r].correction[c] += mine[r * side + c];
		KERNEL_DO(pthread_mutex_unlock(&rows[r].lock));
	}
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	shared.likelihood += likelihood;
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
}

/* Thread 0, between barriers. EM never lowers the likelihood. */
static void verify_step(long round)
{
	double now = shared.likelihood;
	KERNEL_VERIFY(round == 0 || now >= last_likelihood - 1e-9 * fabs(now), "likelihood %.17g after %.17g", now,
		      last_likelihood);
	last_likelihood = now;
	digest = kernel_digest(digest, kernel_bits(now));
	shared.likelihood = 0;
	shared.next_angle = 0;
}

static void work(int thread)
{
	long first, last, angle;
	double *mine = kernel_memory((size_t)(side * side), sizeof *mine);
	kernel_share(side, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		while ((angle = take_angle()) >= 0)
			correct(angle, mine);
		kernel_barrier(&barrier);
		for (long r = first; r < last; r++)
			for (long c = 0; c < side; c++) {
				double seen = sensitivity[r * side + c];
				picture[r * side + c] *= seen > 0 ? rows[r].correction[c] / seen : 0;
				rows[r].correction[c] = 0;
			}
		if (thread == 0)
			verify_step(round);
		kernel_barrier(&barrier);
	}
	free(mine);
}

/* A bright disc with a dark and a very bright one inside. */
static double phantom_at(double x, double y)
{
	if (x * x + y * y > 0.64)
		return 0;
	if ((x - 0.3) * (x - 0.3) + y * y < 0.04)
		return 3;
	return (x + 0.3) * (x + 0.3) + (y - 0.2) * (y - 0.2) < 0.06 ? 0.2 : 1;
}

static void fill(void)
{
	for (long r = 0; r < side; r++)
		for (long c = 0; c < side; c++) {
			phantom[r * side + c] = phantom_at((double)(2 * c + 1 - side) / (double)side,
							   (double)(2 * r + 1 - side) / (double)side);
			picture[r * side + c] = 1;
		}
	for (long a = 0; a < angles; a++)
		for (long r = 0; r < rays; r++) {
			measured[a * rays + r] = project(phantom, ray_of(a, r));
			project_back(sensitivity, ray_of(a, r), 1);
		}
}

/* The counts are those measured, and the picture resembles the phantom. */
static void verify_picture(void)
{
	double counts = 0, wanted = 0, error = 0, norm = 0;
	for (long i = 0; i < side * side; i++) {
		counts += sensitivity[i] * picture[i];
		error += (picture[i] - phantom[i]) * (picture[i] - phantom[i]);
		norm += phantom[i] * phantom[i];
	}
	for (long i = 0; i < angles * rays; i++)
		wanted += measured[i];
	KERNEL_VERIFY(fabs(counts - wanted) < 1e-9 * wanted, "counts %.17g, measured %.17g", counts, wanted);
	KERNEL_VERIFY(sqrt(error / norm) < 0.35, "relative error %g", sqrt(error / norm));
	if (kernel.verbose)
		fprintf(stderr, "relative error %g\n", sqrt(error / norm));
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "mlem", (struct kernel_sizes){ 192, 72, 32, 8 });
	side = kernel.size;
	angles = side;
	rays = side;
	phantom = kernel_memory((size_t)(side * side), sizeof *phantom);
	picture = kernel_memory((size_t)(side * side), sizeof *picture);
	sensitivity = kernel_memory((size_t)(side * side), sizeof *sensitivity);
	measured = kernel_memory((size_t)(angles * rays), sizeof *measured);
	rows = kernel_memory((size_t)side, sizeof *rows);
	for (long r = 0; r < side; r++) {
		KERNEL_DO(pthread_mutex_init(&rows[r].lock, NULL));
		rows[r].correction = kernel_memory((size_t)side, sizeof(double));
	}
	fill();
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	verify_picture();
	kernel_result(&kernel, digest, kernel.threads == 1);
	return 0;
}
