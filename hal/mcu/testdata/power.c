/* Executes the frames on standard input and writes what reaches the actuators. */
#define OPTIBFM_MCU_IMPLEMENTATION
#include "../firmware/optibfm_mcu.h"

#include <stdio.h>

static void discard(void *user, const uint8_t *data, uint16_t size)
{
	(void)user;
	(void)data;
	(void)size;
}

static void apply(void *user, const float *outputs, int armed)
{
	(void)user;
	printf("%g %d\n", (double)outputs[0], armed);
}

int main(void)
{
	static const optibfm_mcu_channel outputs[] = {{"joint", "rad"}};
	static optibfm_mcu m;
	int byte;
	m.name = "joint";
	m.outputs = outputs;
	m.n_outputs = 1;
	m.send = discard;
	m.apply = apply;
	optibfm_mcu_init(&m);
	while ((byte = getchar()) != EOF)
		optibfm_mcu_receive(&m, (uint8_t)byte, 0);
	return 0;
}
