/* Molecular dynamics over all pairs, after SPLASH's water-nsquared: each thread
 * computes the pairs of its own molecules into a private array, then adds it to
 * the shared forces under one mutex a molecule; barriers between the phases,
 * the energies under a mutex of their own.
 *
 * One-site molecules with a Lennard-Jones force, cut off and shifted, in a
 * periodic box, moved by velocity Verlet. -n is the number of molecules along
 * an edge of the box, a round is a time step. */
#include "kernel.h"

#define SPACING 1.2
#define CUTOFF 2.5
#define STEP 0.002

struct site {
	double at[3], speed[3];
};

struct force {
	pthread_mutex_t lock;
	double on[3];
};

static struct kernel kernel;
static long molecules;
static double edge;
static struct site *sites;
static struct force *forces;
static pthread_barrier_t barrier;

static struct {
	pthread_mutex_t lock;
	double potential, kinetic;
} energy = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t digest;
static double first_energy;

/* The nearest image of b seen from a, squared distance returned. */
static double separation(const double *a, const double *b, double *apart)
{
	double squared = 0;
	for (int d = 0; d < 3; d++) {
		double delta = a[d] - b[d];
		if (delta > edge / 2)
			delta -= edge;
		else if (delta < -edge / 2)
			delta += edge;
		apart[d] = delta;
		squared += delta * delta;
	}
	return squared;
}

/* Force over distance of a pair; the potential, shifted to vanish at the cutoff, in *potential. */
static double pair(double squared, double *potential)
{
	const double far6 = 1 / (CUTOFF * CUTOFF * CUTOFF * CUTOFF * CUTOFF * CUTOFF);
	double near2 = 1 / squared, near6 = near2 * near2 * near2;
	*potential = 4 * near6 * (near6 - 1) - 4 * far6 * (far6 - 1);
	return 24 * near6 * (2 * near6 - 1) * near2;
}

/* Pairs of molecule i with the half of the others that follows it on a circle: equal work for every i. */
static double pairs_of(long i, double (*mine)[3])
{
	double sum = 0;
	for (long step = 1; step <= molecules / 2; step++) {
		long j = (i + step) % molecules;
		double apart[3], potential;
		if (2 * step == molecules && i > j)
			continue;
		double squared = separation(sites[i].at, sites[j].at, apart);
		if (squared >= CUTOFF * CUTOFF)
			continue;
		double strength = pair(squared, &potential);
		sum += potential;
		for (int d = 0; d < 3; d++) {
			mine[i][d] += strength * apart[d];
			mine[j][d] -= strength * apart[d];
		}
	}
	return sum;
}

static void add_up(double (*mine)[3], long from)
{
	for (long n = 0; n < molecules; n++) {
		long i = (from + n) % molecules;
		if (mine[i][0] == 0 && mine[i][1] == 0 && mine[i][2] == 0)
			continue;
		KERNEL_DO(pthread_mutex_lock(&forces[i].lock));
		for (int d = 0; d < 3; d++)
			forces[i].on[d] += mine[i][d];
		KERNEL_DO(pthread_mutex_unlock(&forces[i].lock));
	}
}

/* Moves its molecules by a full step, with half a kick before; clears their forces. */
static void drift(long first, long last)
{
	for (long i = first; i < last; i++)
		for (int d = 0; d < 3; d++) {
			struct site *site = &sites[i];
			site->speed[d] += STEP / 2 * forces[i].on[d];
			site->at[d] += STEP * site->speed[d];
			site->at[d] -= edge * floor(site->at[d] / edge);
			forces[i].on[d] = 0;
		}
}

static double kick(long first, long last)
{
	double kinetic = 0;
	for (long i = first; i < last; i++)
		for (int d = 0; d < 3; d++) {
			sites[i].speed[d] += STEP / 2 * forces[i].on[d];
			kinetic += sites[i].speed[d] * sites[i].speed[d] / 2;
		}
	return kinetic;
}

/* Thread 0, between barriers. The energy and the momentum are conserved. */
static void verify(long round)
{
	double total = energy.potential + energy.kinetic, momentum[3] = { 0 };
	if (round == 0)
		first_energy = total;
	KERNEL_VERIFY(fabs(total - first_energy) < 1e-4 * (double)molecules, "energy %g, at first %g", total, first_energy);
	for (long i = 0; i < molecules; i++)
		for (int d = 0; d < 3; d++)
			momentum[d] += sites[i].speed[d];
	KERNEL_VERIFY(fabs(momentum[0]) + fabs(momentum[1]) + fabs(momentum[2]) < 1e-8, "momentum %g %g %g", momentum[0],
		      momentum[1], momentum[2]);
	digest = kernel_digest(digest, kernel_bits(total));
	energy.potential = energy.kinetic = 0;
}

static void work(int thread)
{
	long first, last;
	double (*mine)[3] = kernel_memory(molecules, sizeof *mine);
	kernel_share(molecules, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		double potential = 0;
		drift(first, last);
		memset(mine, 0, (size_t)molecules * sizeof *mine);
		kernel_barrier(&barrier);
		for (long i = first; i < last; i++)
			potential += pairs_of(i, mine);
		add_up(mine, first);
		kernel_barrier(&barrier);
		double kinetic = kick(first, last);
		KERNEL_DO(pthread_mutex_lock(&energy.lock));
		energy.potential += potential;
		energy.kinetic += kinetic;
		KERNEL_DO(pthread_mutex_unlock(&energy.lock));
		kernel_barrier(&barrier);
		if (thread == 0)
			verify(round);
		kernel_barrier(&barrier);
	}
	free(mine);
}

/* A cubic lattice, slightly warm and at rest as a whole. */
static void fill(void)
{
	uint64_t seed = 11;
	double mean[3] = { 0 };
	for (long i = 0; i < molecules; i++) {
		long place[3] = { i % kernel.size, i / kernel.size % kernel.size, i / kernel.size / kernel.size };
		for (int d = 0; d < 3; d++) {
			sites[i].at[d] = SPACING * ((double)place[d] + 0.5);
			sites[i].speed[d] = kernel_uniform(&seed) - 0.5;
			mean[d] += sites[i].speed[d] / (double)molecules;
		}
		KERNEL_DO(pthread_mutex_init(&forces[i].lock, NULL));
	}
	for (long i = 0; i < molecules; i++)
		for (int d = 0; d < 3; d++)
			sites[i].speed[d] -= mean[d];
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "water_nsq", (struct kernel_sizes){ 10, 750, 5, 100 });
	if (kernel.size < 5 || kernel.size > 64)
		kernel_fail(2, "water_nsq: -n is from 5 to 64");
	molecules = kernel.size * kernel.size * kernel.size;
	edge = SPACING * (double)kernel.size;
	sites = kernel_memory(molecules, sizeof *sites);
	forces = kernel_memory(molecules, sizeof *forces);
	fill();
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	kernel_result(&kernel, digest, kernel.threads < 3);
	return 0;
}
