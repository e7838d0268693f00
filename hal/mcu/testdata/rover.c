/* The rover of the tests: the reference firmware on standard input and output
 * in place of a UART. SIGUSR1 is the emergency stop, SIGUSR2 its release. */
#define _POSIX_C_SOURCE 200809L
#define OPTIBFM_MCU_IMPLEMENTATION
#include "../firmware/optibfm_mcu.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t pressed, released;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		pressed = 1;
	else
		released = 1;
}

static uint32_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint32_t)((uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u);
}

static void send_all(void *user, const uint8_t *data, uint16_t size)
{
	(void)user;
	while (size > 0) {
		ssize_t n = write(1, data, size);
		if (n <= 0)
			return;
		data += n;
		size = (uint16_t)(size - n);
	}
}

static float wheel[2];
static int powered;

static void apply(void *user, const float *outputs, int armed)
{
	(void)user;
	wheel[0] = outputs[0];
	wheel[1] = outputs[1];
	powered = armed;
}

static const optibfm_mcu_channel inputs[] = {
	{"left_position", "rad"}, {"right_position", "rad"},
	{"left_velocity", "rad/s"}, {"right_velocity", "rad/s"}, {"battery", "V"},
	{"estop_closed", ""} /* 1 while the emergency stop's circuit is closed */
};
static const optibfm_mcu_channel outputs[] = {
	{"left_velocity", "rad/s"}, {"right_velocity", "rad/s"}
};

int main(void)
{
	static optibfm_mcu m;
	float values[6] = {0, 0, 0, 0, 12, 1};
	uint32_t begun = now_us(), offset = 0xffffffffu - 300000u - begun, last = begun;
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, 0);
	sigaction(SIGUSR2, &action, 0);
	m.name = "rover in C";
	m.inputs = inputs;
	m.n_inputs = 6;
	m.outputs = outputs;
	m.n_outputs = 2;
	m.send = send_all;
	m.apply = apply;
	optibfm_mcu_init(&m);
	for (;;) {
		struct pollfd in = {0, POLLIN, 0};
		uint8_t bytes[256];
		ssize_t n = 0, i;
		uint32_t now;
		if (poll(&in, 1, 1) > 0) {
			n = read(0, bytes, sizeof bytes);
			if (n <= 0)
				return 0;
		}
		now = now_us() + offset; /* wraps 0.3 s after the start */
		for (i = 0; i < n; i++)
			optibfm_mcu_receive(&m, bytes[i], now);
		if (pressed) {
			pressed = 0;
			values[5] = 0;
			optibfm_mcu_fault(&m, OPTIBFM_MCU_CAUSE_ESTOP);
		}
		if (released) {
			released = 0;
			values[5] = 1;
			optibfm_mcu_clear_fault(&m);
		}
		optibfm_mcu_poll(&m, now);
		if (now_us() - last >= 5000) {
			float dt = (float)(now_us() - last) * 1e-6f;
			last = now_us();
			values[0] += wheel[0] * dt;
			values[1] += wheel[1] * dt;
			values[2] = wheel[0];
			values[3] = wheel[1];
			optibfm_mcu_sample(&m, values, now_us() + offset);
		}
	}
}
