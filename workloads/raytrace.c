/* Ray tracer with work stealing, after SPLASH's raytrace: each thread has a
 * queue of tiles under a mutex, takes from its own and, when that is empty,
 * steals from the others. Every ray from the eye draws a number under one
 * mutex, as SPLASH's does: the numbers depend on the order of that mutex, the
 * picture does not. */
#include "kernel.h"

#define SPHERES 48
#define TILE 8
#define BOUNCES 5

struct vector {
	double x, y, z;
};

struct sphere {
	struct vector centre;
	double radius, mirror;
	struct vector colour;
};

struct deque {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	int *tiles;
	long first, last; /* the owner takes at the end, a thief at the beginning */
};

static struct kernel kernel;
static struct sphere scene[SPHERES];
static long side, tiles_in_row;
static struct deque *deques;
static struct vector *picture;
static uint64_t *numbers; /* of the ray of each pixel */

static struct {
	pthread_mutex_t lock;
	uint64_t next;
} ray = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct vector plus(struct vector a, struct vector b)
{
	return (struct vector){ a.x + b.x, a.y + b.y, a.z + b.z };
}

static struct vector scaled(struct vector a, double by)
{
	return (struct vector){ a.x * by, a.y * by, a.z * by };
}

static double dot(struct vector a, struct vector b)
{
	return a.x * b.x + a.y * b.y + a.z * b.z;
}

static struct vector unit(struct vector a)
{
	return scaled(a, 1 / sqrt(dot(a, a)));
}

/* The nearest sphere in this direction, its distance in *distance. */
static const struct sphere *hit(struct vector from, struct vector direction, double *distance)
{
	const struct sphere *nearest = NULL;
	*distance = INFINITY;
	for (int s = 0; s < SPHERES; s++) {
		struct vector to = plus(scene[s].centre, scaled(from, -1));
		double along = dot(to, direction);
		double inside = scene[s].radius * scene[s].radius - dot(to, to) + along * along;
		if (along < 0 || inside < 0)
			continue;
		double at = along - sqrt(inside);
		if (at > 1e-6 && at < *distance) {
			*distance = at;
			nearest = &scene[s];
		}
	}
	return nearest;
}

static struct vector trace(struct vector from, struct vector direction)
{
	const struct vector light = unit((struct vector){ 1, 2, -1.5 });
	struct vector light_seen = { 0, 0, 0 };
	double weight = 1;
	for (int bounce = 0; bounce < BOUNCES; bounce++) {
		double distance, unused;
		const struct sphere *sphere = hit(from, direction, &distance);
		if (sphere == NULL) {
			double sky = 0.5 + 0.5 * direction.y;
			return plus(light_seen, scaled((struct vector){ sky, sky, 1 }, weight));
		}
		struct vector point = plus(from, scaled(direction, distance));
		struct vector normal = unit(plus(point, scaled(sphere->centre, -1)));
		double shade = dot(normal, light);
		if (shade < 0 || hit(point, light, &unused) != NULL)
			shade = 0;
		light_seen = plus(light_seen, scaled(sphere->colour, weight * (1 - sphere->mirror) * (0.1 + shade)));
		weight *= sphere->mirror;
		direction = plus(direction, scaled(normal, -2 * dot(direction, normal)));
		from = point;
	}
	return light_seen;
}

static struct vector pixel(long row, long column)
{
	double x = (double)(2 * column + 1 - side) / (double)side, y = (double)(side - 2 * row - 1) / (double)side;
	return trace((struct vector){ 0, 0, -4 }, unit((struct vector){ x, y, 2 }));
}

static int take(struct deque *deque, int steal, int *tile)
{
	KERNEL_DO(pthread_mutex_lock(&deque->lock));
	int some = deque->first < deque->last;
	if (some)
		*tile = steal ? deque->tiles[deque->first++] : deque->tiles[--deque->last];
	KERNEL_DO(pthread_mutex_unlock(&deque->lock));
	return some;
}

/* No tile makes new ones, so a thread that found every queue empty is done. */
static int next_tile(int thread, int *tile)
{
	for (int offset = 0; offset < kernel.threads; offset++)
		if (take(&deques[(thread + offset) % kernel.threads], offset != 0, tile))
			return 1;
	return 0;
}

static void render(int tile)
{
	long first_row = tile / tiles_in_row * TILE, first_column = tile % tiles_in_row * TILE;
	for (long row = first_row; row < first_row + TILE && row < side; row++)
		for (long column = first_column; column < first_column + TILE && column < side; column++) {
			KERNEL_DO(pthread_mutex_lock(&ray.lock));
			numbers[row * side + column] = ++ray.next;
			KERNEL_DO(pthread_mutex_unlock(&ray.lock));
			picture[row * side + column] = pixel(row, column);
		}
}

static void work(int thread)
{
	int tile;
	while (next_tile(thread, &tile))
		render(tile);
}

static void deal_tiles(void)
{
	long tiles = tiles_in_row * tiles_in_row;
	for (int t = 0; t < kernel.threads; t++) {
		long first, last;
		kernel_share(tiles, kernel.threads, t, &first, &last);
		for (long i = first; i < last; i++)
			deques[t].tiles[i - first] = (int)i;
		deques[t].first = 0;
		deques[t].last = last - first;
	}
}

/* Every ray number was drawn once, and a sample of the pixels is as one thread computes it. */
static void verify(void)
{
	long pixels = side * side;
	unsigned char *seen = kernel_memory(pixels, 1);
	KERNEL_VERIFY(ray.next == (uint64_t)pixels, "%llu rays for %ld pixels", (unsigned long long)ray.next, pixels);
	for (long i = 0; i < pixels; i++) {
		KERNEL_VERIFY(numbers[i] >= 1 && numbers[i] <= (uint64_t)pixels && !seen[numbers[i] - 1],
			      "pixel %ld has ray %llu", i, (unsigned long long)numbers[i]);
		seen[numbers[i] - 1] = 1;
	}
	for (long i = 0; i < pixels; i += 97) {
		struct vector wanted = pixel(i / side, i % side);
		KERNEL_VERIFY(memcmp(&wanted, &picture[i], sizeof wanted) == 0, "pixel %ld differs", i);
	}
	free(seen);
}

static void build_scene(void)
{
	uint64_t seed = 7;
	for (int s = 0; s < SPHERES; s++) {
		scene[s].centre.x = 4 * kernel_uniform(&seed) - 2;
		scene[s].centre.y = 4 * kernel_uniform(&seed) - 2;
		scene[s].centre.z = 4 * kernel_uniform(&seed);
		scene[s].radius = 0.15 + 0.35 * kernel_uniform(&seed);
		scene[s].mirror = 0.2 + 0.6 * kernel_uniform(&seed);
		scene[s].colour.x = kernel_uniform(&seed);
		scene[s].colour.y = kernel_uniform(&seed);
		scene[s].colour.z = kernel_uniform(&seed);
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "raytrace", (struct kernel_sizes){ 512, 32, 64, 1 });
	uint64_t digest = 0;
	side = kernel.size;
	tiles_in_row = (side + TILE - 1) / TILE;
	build_scene();
	picture = kernel_memory((size_t)side * side, sizeof *picture);
	numbers = kernel_memory((size_t)side * side, sizeof *numbers);
	deques = kernel_memory(kernel.threads, sizeof *deques);
	for (int t = 0; t < kernel.threads; t++) {
		deques[t].tiles = kernel_memory((size_t)tiles_in_row * tiles_in_row, sizeof(int));
		KERNEL_DO(pthread_mutex_init(&deques[t].lock, NULL));
	}
	for (long r = 0; r < kernel.rounds; r++) {
		ray.next = 0;
		deal_tiles();
		kernel_parallel(kernel.threads, work);
		verify();
		for (long i = 0; i < side * side; i++)
			digest = kernel_digest(digest, numbers[i]);
	}
	kernel_result(&kernel, digest, kernel.threads == 1);
	return 0;
}
