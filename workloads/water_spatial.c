/* Molecular dynamics with cells, after SPLASH's water-spatial: the box is cut
 * into cells not smaller than the cutoff, each with a list of its molecules and
 * a mutex. A thread owns cells, computes the pairs between a cell and half of
 * its neighbours, and adds forces to a cell under the cell's mutex; a molecule
 * that leaves its cell is moved to another list under that one's mutex.
 *
 * The same molecules as water_nsq. The order of the lists, and so the last bits
 * of the forces, depends on the order of the mutexes. -n is the number of cells
 * along an edge of the box, a round is a time step. */
#include "kernel.h"

#define CUTOFF 2.5
#define SPACING 1.25 /* two molecules along the edge of a cell */
#define CAPACITY 48  /* of a cell; it holds 8 on the average */
#define STEP 0.002

struct molecule {
	double at[3], speed[3], force[3];
	long name;
};

struct cell {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	int count;
	int settled; /* the first ones, when others arrive */
	struct molecule list[CAPACITY];
};

static struct kernel kernel;
static long side, cells;
static double edge;
static struct cell *box;
static pthread_barrier_t barrier;

static struct {
	pthread_mutex_t lock;
	double potential, kinetic, momentum[3];
	long count;
	uint64_t digest;
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static double first_energy, last_potential;

static struct cell *cell_at(long x, long y, long z)
{
	return &box[((x + side) % side * side + (y + side) % side) * side + (z + side) % side];
}

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

static void add_forces(struct cell *cell, double (*sums)[3])
{
	KERNEL_DO(pthread_mutex_lock(&cell->lock));
	for (int i = 0; i < cell->count; i++)
		for (int d = 0; d < 3; d++)
			cell->list[i].force[d] += sums[i][d];
	KERNEL_DO(pthread_mutex_unlock(&cell->lock));
}

/* All pairs of two cells, or of one. The forces on the first go to on_a, those on the second under its mutex. */
static double pairs_of(struct cell *a, struct cell *b, double (*on_a)[3])
{
	double others[CAPACITY][3] = { { 0 } }, sum = 0;
	double (*on_b)[3] = a == b ? on_a : others;
	int close = 0;
	for (int i = 0; i < a->count; i++)
		for (int j = a == b ? i + 1 : 0; j < b->count; j++) {
			double apart[3], potential;
			double squared = separation(a->list[i].at, b->list[j].at, apart);
			if (squared >= CUTOFF * CUTOFF)
				continue;
			double strength = pair(squared, &potential);
			sum += potential;
			close = 1;
			for (int d = 0; d < 3; d++) {
				on_a[i][d] += strength * apart[d];
				on_b[j][d] -= strength * apart[d];
			}
		}
	if (close && a != b)
		add_forces(b, others);
	return sum;
}

/* Pairs inside a cell and with the 13 neighbours that come after it. */
static double forces_of(long c)
{
	long x = c / (side * side), y = c / side % side, z = c % side;
	double on_here[CAPACITY][3] = { { 0 } };
	struct cell *here = &box[c];
	double sum = pairs_of(here, here, on_here);
	for (int n = 14; n < 27; n++)
		sum += pairs_of(here, cell_at(x + n / 9 - 1, y + n / 3 % 3 - 1, z + n % 3 - 1), on_here);
	add_forces(here, on_here);
	return sum;
}

static struct cell *home(const struct molecule *m)
{
	const double width = edge / (double)side;
	return cell_at((long)(m->at[0] / width), (long)(m->at[1] / width), (long)(m->at[2] / width));
}

static void drift(struct cell *cell)
{
	for (int i = 0; i < cell->count; i++)
		for (int d = 0; d < 3; d++) {
			struct molecule *m = &cell->list[i];
			m->speed[d] += STEP / 2 * m->force[d];
			m->at[d] += STEP * m->speed[d];
			m->at[d] -= edge * floor(m->at[d] / edge);
			m->force[d] = 0;
		}
}

/* Sends away what left the cell. Others may send to it at the same time: the
 * list is only touched under the mutex, one departure at a time. */
static void migrate(struct cell *cell)
{
	for (int i = 0;;) {
		struct molecule leaving;
		struct cell *to = cell;
		KERNEL_DO(pthread_mutex_lock(&cell->lock));
		while (i < cell->settled && (to = home(&cell->list[i])) == cell)
			i++;
		if (to != cell) {
			leaving = cell->list[i];
			cell->list[i] = cell->list[--cell->settled];
			cell->list[cell->settled] = cell->list[--cell->count];
		}
		KERNEL_DO(pthread_mutex_unlock(&cell->lock));
		if (to == cell)
			return;
		KERNEL_DO(pthread_mutex_lock(&to->lock));
		KERNEL_VERIFY(to->count < CAPACITY, "a cell is full");
		to->list[to->count++] = leaving;
		KERNEL_DO(pthread_mutex_unlock(&to->lock));
	}
}

/* The second half of the kick; what is conserved is added up, then added under the mutex. */
static void kick(long first, long last, double potential)
{
	double kinetic = 0, momentum[3] = { 0 };
	long count = 0;
	uint64_t digest = 0;
	for (long c = first; c < last; c++) {
		count += box[c].count;
		for (int i = 0; i < box[c].count; i++) {
			struct molecule *m = &box[c].list[i];
			for (int d = 0; d < 3; d++) {
				m->speed[d] += STEP / 2 * m->force[d];
				kinetic += m->speed[d] * m->speed[d] / 2;
				momentum[d] += m->speed[d];
			}
			digest = kernel_digest(digest, (uint64_t)m->name ^ kernel_bits(m->at[0]));
		}
	}
	KERNEL_DO(pthread_mutex_lock(&shared.lock));
	shared.potential += potential;
	shared.kinetic += kinetic;
	shared.count += count;
	shared.digest = kernel_digest(shared.digest, digest);
	for (int d = 0; d < 3; d++)
		shared.momentum[d] += momentum[d];
	KERNEL_DO(pthread_mutex_unlock(&shared.lock));
}

/* Thread 0, between barriers. */
static void verify(long round)
{
	double total = shared.potential + shared.kinetic;
	const double *p = shared.momentum;
	if (round == 0)
		first_energy = total;
	KERNEL_VERIFY(shared.count == 8 * cells, "%ld molecules of %ld", shared.count, 8 * cells);
	KERNEL_VERIFY(fabs(total - first_energy) < 1e-4 * 8 * (double)cells, "energy %g, at first %g", total, first_energy);
	KERNEL_VERIFY(fabs(p[0]) + fabs(p[1]) + fabs(p[2]) < 1e-8, "momentum %g %g %g", p[0], p[1], p[2]);
	last_potential = shared.potential;
	shared.potential = shared.kinetic = 0;
	shared.momentum[0] = shared.momentum[1] = shared.momentum[2] = 0;
	shared.count = 0;
}

/* Without cells: every pair, the molecules of the boxes in one row. */
static void verify_potential(void)
{
	double sum = 0;
	for (long a = 0; a < cells; a++)
		for (int i = 0; i < box[a].count; i++)
			for (long b = a; b < cells; b++)
				for (int j = a == b ? i + 1 : 0; j < box[b].count; j++) {
					double apart[3], potential;
					double squared = separation(box[a].list[i].at, box[b].list[j].at, apart);
					if (squared < CUTOFF * CUTOFF) {
						pair(squared, &potential);
						sum += potential;
					}
				}
	KERNEL_VERIFY(fabs(sum - last_potential) < 1e-9 * (double)cells, "potential %g, all pairs %g", last_potential, sum);
}

static void work(int thread)
{
	long first, last;
	kernel_share(cells, kernel.threads, thread, &first, &last);
	for (long round = 0; round < kernel.rounds; round++) {
		double potential = 0;
		for (long c = first; c < last; c++) {
			drift(&box[c]);
			box[c].settled = box[c].count;
		}
		kernel_barrier(&barrier);
		for (long c = first; c < last; c++)
			migrate(&box[c]);
		kernel_barrier(&barrier);
		for (long c = first; c < last; c++)
			potential += forces_of(c);
		kernel_barrier(&barrier);
		kick(first, last, potential);
		kernel_barrier(&barrier);
		if (thread == 0)
			verify(round);
		kernel_barrier(&barrier);
	}
}

static void fill(void)
{
	uint64_t seed = 11;
	double mean[3] = { 0 };
	long along = 2 * side, count = along * along * along;
	for (long i = 0; i < count; i++) {
		struct molecule m = { .name = i };
		long place[3] = { i % along, i / along % along, i / along / along };
		for (int d = 0; d < 3; d++) {
			m.at[d] = SPACING * ((double)place[d] + 0.02); /* close to the walls: many move on */
			m.speed[d] = kernel_uniform(&seed) - 0.5;
			mean[d] += m.speed[d] / (double)count;
		}
		struct cell *cell = home(&m);
		KERNEL_VERIFY(cell->count < CAPACITY, "a cell is full");
		cell->list[cell->count++] = m;
	}
	for (long c = 0; c < cells; c++) {
		KERNEL_DO(pthread_mutex_init(&box[c].lock, NULL));
		for (int i = 0; i < box[c].count; i++)
			for (int d = 0; d < 3; d++)
				box[c].list[i].speed[d] -= mean[d];
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "water_spatial", (struct kernel_sizes){ 10, 330, 4, 100 });
	if (kernel.size < 4 || kernel.size > 64)
		kernel_fail(2, "water_spatial: -n is from 4 to 64");
	side = kernel.size;
	cells = side * side * side;
	edge = CUTOFF * (double)side;
	box = kernel_memory(cells, sizeof *box);
	fill();
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	verify_potential();
	kernel_result(&kernel, shared.digest, kernel.threads == 1);
	return 0;
}
