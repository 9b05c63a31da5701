/* One-dimensional complex FFT in six steps, after SPLASH's fft: the 2^n points
 * are a matrix of rows; transpose, transform the rows, turn by the twiddle
 * factors, transpose, transform the rows, transpose. A barrier between steps.
 *
 * -n is the logarithm of the number of points and must be even. A round is a
 * transform forth and back. */
#include "kernel.h"
#include <complex.h>

/* glibc has it for gcc only. */
#ifndef CMPLX
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

static struct kernel kernel;
static long side; /* rows, and points in a row */
static double complex *data, *scratch, *roots;
static pthread_barrier_t barrier;

/* roots[k] = exp(-2πi k / side²) */
static double complex root(long k, int inverse)
{
	double complex value = roots[k];
	return inverse ? conj(value) : value;
}

static void transpose(double complex *to, const double complex *from, long first, long last)
{
	enum { TILE = 16 };
	for (long r = first; r < last; r += TILE)
		for (long c = 0; c < side; c += TILE)
			for (long i = r; i < r + TILE && i < last; i++)
				for (long j = c; j < c + TILE && j < side; j++)
					to[i * side + j] = from[j * side + i];
}

/* Radix 2, in place. The product of complex numbers is written out: C's own must look for infinities. */
static void transform_row(double complex *row, int inverse)
{
	for (long i = 1, j = 0; i < side; i++) {
		long bit = side >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j |= bit;
		if (i < j) {
			double complex other = row[i];
			row[i] = row[j];
			row[j] = other;
		}
	}
	for (long half = 1; half < side; half *= 2)
		for (long k = 0; k < half; k++) {
			double complex w = root(k * (side / (2 * half)) * side, inverse);
			for (long i = k; i < side; i += 2 * half) {
				double complex a = row[i], b = row[i + half];
				double re = creal(w) * creal(b) - cimag(w) * cimag(b);
				double im = creal(w) * cimag(b) + cimag(w) * creal(b);
				row[i] = CMPLX(creal(a) + re, cimag(a) + im);
				row[i + half] = CMPLX(creal(a) - re, cimag(a) - im);
			}
		}
}

static void transform(int thread, int inverse)
{
	long first, last;
	kernel_share(side, kernel.threads, thread, &first, &last);
	kernel_barrier(&barrier);
	transpose(scratch, data, first, last);
	for (long r = first; r < last; r++) {
		transform_row(scratch + r * side, inverse);
		for (long c = 0; c < side; c++) {
			double complex w = root(r * c, inverse), v = scratch[r * side + c];
			scratch[r * side + c] = CMPLX(creal(w) * creal(v) - cimag(w) * cimag(v),
						      creal(w) * cimag(v) + cimag(w) * creal(v));
		}
	}
	kernel_barrier(&barrier);
	transpose(data, scratch, first, last);
	for (long r = first; r < last; r++)
		transform_row(data + r * side, inverse);
	kernel_barrier(&barrier);
	transpose(scratch, data, first, last);
	kernel_barrier(&barrier);
	for (long i = first * side; i < last * side; i++)
		data[i] = inverse ? scratch[i] / (double)(side * side) : scratch[i];
	kernel_barrier(&barrier);
}

static double complex input(long i)
{
	uint64_t seed = (uint64_t)i;
	double re = kernel_uniform(&seed);
	return CMPLX(re, kernel_uniform(&seed));
}

/* A few bins of the spectrum against the definition. */
static void verify_bins(void)
{
	long points = side * side;
	for (int sample = 0; sample < 4; sample++) {
		uint64_t seed = (uint64_t)sample;
		long bin = (long)(kernel_random(&seed) % (uint64_t)points);
		double complex sum = 0;
		for (long i = 0; i < points; i++)
			sum += input(i) * roots[(long)((unsigned long)i * (unsigned long)bin % (unsigned long)points)];
		KERNEL_VERIFY(cabs(sum - data[bin]) < 1e-6, "bin %ld is off by %g", bin, cabs(sum - data[bin]));
	}
}

static void work(int thread)
{
	for (long round = 0; round < kernel.rounds; round++) {
		transform(thread, 0);
		if (round == 0 && thread == 0)
			verify_bins();
		transform(thread, 1);
	}
}

int main(int argc, char **argv)
{
	kernel = kernel_arguments(argc, argv, "fft", (struct kernel_sizes){ 20, 28, 12, 2 });
	if (kernel.size % 2 != 0 || kernel.size > 28)
		kernel_fail(2, "fft: -n is the logarithm of the number of points, even and at most 28");
	side = 1L << (kernel.size / 2);
	long points = side * side;
	data = kernel_memory(points, sizeof *data);
	scratch = kernel_memory(points, sizeof *scratch);
	roots = kernel_memory(points, sizeof *roots);
	for (long i = 0; i < points; i++) {
		data[i] = input(i);
		roots[i] = cexp(-2 * M_PI * I * (double)i / (double)points);
	}
	KERNEL_DO(pthread_barrier_init(&barrier, NULL, (unsigned)kernel.threads));
	kernel_parallel(kernel.threads, work);
	uint64_t digest = 0;
	for (long i = 0; i < points; i++) {
		KERNEL_VERIFY(cabs(data[i] - input(i)) < 1e-9, "point %ld is off by %g", i, cabs(data[i] - input(i)));
		digest = kernel_digest(digest, kernel_bits(creal(data[i])) ^ kernel_bits(cimag(data[i])));
	}
	kernel_result(&kernel, digest, 1);
	return 0;
}
