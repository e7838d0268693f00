/*
 * The firmware's side of the microcontroller protocol, see ../PROTOCOL.md.
 *
 * C99 and C++, one header, no allocation, no interrupts, nothing of libc but
 * string.h and stdint.h; about 1 KB of RAM. In one C file:
 *
 *     #define OPTIBFM_MCU_IMPLEMENTATION
 *     #include "optibfm_mcu.h"
 *
 * Fill the first part of an optibfm_mcu, call optibfm_mcu_init, and then from
 * the main loop, never from interrupts:
 *
 *     optibfm_mcu_receive(&m, byte, now_us)   for each byte from the host
 *     optibfm_mcu_poll(&m, now_us)            at least every millisecond
 *     optibfm_mcu_sample(&m, values, at_us)   at the rate of your samples
 *
 * poll enforces the deadman. It runs on the main loop, so start the chip's own
 * watchdog beside it, fed by the main loop: a loop that hangs must stop the
 * motors too.
 */
#ifndef OPTIBFM_MCU_H
#define OPTIBFM_MCU_H

#include <stdint.h>
#include <string.h>

#define OPTIBFM_MCU_VERSION 1
#ifndef OPTIBFM_MCU_MAX_CHANNELS /* outputs; fewer save 8 bytes of RAM each */
#define OPTIBFM_MCU_MAX_CHANNELS 48
#endif
#define OPTIBFM_MCU_MAX_FRAME 254
#define OPTIBFM_MCU_MAX_TEXT 32

enum { OPTIBFM_MCU_HALTED = 0, OPTIBFM_MCU_ARMED = 1 };

enum {
	OPTIBFM_MCU_CAUSE_NONE = 0,
	OPTIBFM_MCU_CAUSE_BOOT = 1,
	OPTIBFM_MCU_CAUSE_HALT = 2,
	OPTIBFM_MCU_CAUSE_DEADMAN = 3,
	OPTIBFM_MCU_CAUSE_ESTOP = 16,
	OPTIBFM_MCU_CAUSE_BATTERY = 17,
	OPTIBFM_MCU_CAUSE_OVERCURRENT = 18,
	OPTIBFM_MCU_CAUSE_OVERHEAT = 19
};

typedef struct {
	const char *name; /* ASCII, up to 32 bytes, unique in its list */
	const char *unit; /* SI, "" for dimensionless */
} optibfm_mcu_channel;

typedef struct {
	/* To be filled before optibfm_mcu_init. */
	const char *name; /* of the board, up to 32 bytes */
	const optibfm_mcu_channel *inputs;
	const optibfm_mcu_channel *outputs;
	uint8_t n_inputs;  /* up to 48 */
	uint8_t n_outputs; /* up to OPTIBFM_MCU_MAX_CHANNELS */
	/* Sends bytes to the host. May be called from every function below. */
	void (*send)(void *user, const uint8_t *data, uint16_t size);
	/* Brings the outputs to the actuators, at once. armed is 0 for the
	 * failsafe outputs: a driver may then also cut its power stage. It is
	 * 1 from the first COMMAND after ARM on. */
	void (*apply)(void *user, const float *outputs, int armed);
	void *user;

	/* The rest is the library's. */
	uint8_t state, cause, fault, tx_seq, rx_seq, rx_started, command_seq, skip;
	uint16_t deadman_ms, lost, rx_size;
	uint32_t heard_us;
	float outputs_now[OPTIBFM_MCU_MAX_CHANNELS];
	float failsafe[OPTIBFM_MCU_MAX_CHANNELS];
	uint8_t rx[OPTIBFM_MCU_MAX_FRAME + 1];
	uint8_t tx[OPTIBFM_MCU_MAX_FRAME + 2];
	uint16_t tx_size, tx_code, tx_crc;
} optibfm_mcu;

void optibfm_mcu_init(optibfm_mcu *m);
void optibfm_mcu_receive(optibfm_mcu *m, uint8_t byte, uint32_t now_us);
void optibfm_mcu_poll(optibfm_mcu *m, uint32_t now_us);
void optibfm_mcu_sample(optibfm_mcu *m, const float *values, uint32_t at_us);
/* Halts with a cause of 16 or above. It cannot be armed until the fault is
 * cleared, and stays halted then too, until the host arms it. */
void optibfm_mcu_fault(optibfm_mcu *m, uint8_t cause);
void optibfm_mcu_clear_fault(optibfm_mcu *m);

#ifdef OPTIBFM_MCU_IMPLEMENTATION

enum {
	optibfm_mcu_hello = 0x01, optibfm_mcu_describe = 0x02, optibfm_mcu_arm = 0x03,
	optibfm_mcu_command = 0x04, optibfm_mcu_halt = 0x05,
	optibfm_mcu_welcome = 0x81, optibfm_mcu_channel_is = 0x82,
	optibfm_mcu_state_is = 0x83, optibfm_mcu_sample_is = 0x84
};

/* CRC-16/CCITT-FALSE, a nibble at a time: 32 bytes of table. */
static uint16_t optibfm_mcu_crc(uint16_t crc, uint8_t byte)
{
	static const uint16_t table[16] = {
		0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
		0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef
	};
	crc = (uint16_t)((crc << 4) ^ table[(crc >> 12) ^ (byte >> 4)]);
	return (uint16_t)((crc << 4) ^ table[(crc >> 12) ^ (byte & 15)]);
}

static uint16_t optibfm_mcu_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | (uint16_t)p[1] << 8);
}

static float optibfm_mcu_get_float(const uint8_t *p)
{
	uint32_t bits = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Sending: the COBS code is filled in when its block ends. */
static void optibfm_mcu_code(optibfm_mcu *m, uint8_t byte)
{
	if (byte == 0) {
		m->tx[m->tx_code] = (uint8_t)(m->tx_size - m->tx_code);
		m->tx_code = m->tx_size;
	}
	m->tx[m->tx_size++] = byte;
}

static void optibfm_mcu_put8(optibfm_mcu *m, uint8_t byte)
{
	m->tx_crc = optibfm_mcu_crc(m->tx_crc, byte);
	optibfm_mcu_code(m, byte);
}

static void optibfm_mcu_put16(optibfm_mcu *m, uint16_t value)
{
	optibfm_mcu_put8(m, (uint8_t)value);
	optibfm_mcu_put8(m, (uint8_t)(value >> 8));
}

static void optibfm_mcu_put32(optibfm_mcu *m, uint32_t value)
{
	optibfm_mcu_put16(m, (uint16_t)value);
	optibfm_mcu_put16(m, (uint16_t)(value >> 16));
}

static void optibfm_mcu_put_text(optibfm_mcu *m, const char *text)
{
	int i;
	for (i = 0; text[i] != 0 && i < OPTIBFM_MCU_MAX_TEXT; i++)
		optibfm_mcu_put8(m, (uint8_t)text[i]);
}

static void optibfm_mcu_begin(optibfm_mcu *m, uint8_t type)
{
	m->tx_size = 1;
	m->tx_code = 0;
	m->tx_crc = 0xffff;
	optibfm_mcu_put8(m, type);
	optibfm_mcu_put8(m, m->tx_seq++);
}

static void optibfm_mcu_end(optibfm_mcu *m)
{
	uint16_t crc = m->tx_crc;
	optibfm_mcu_code(m, (uint8_t)crc);
	optibfm_mcu_code(m, (uint8_t)(crc >> 8));
	m->tx[m->tx_code] = (uint8_t)(m->tx_size - m->tx_code);
	m->tx[m->tx_size++] = 0;
	m->send(m->user, m->tx, m->tx_size);
}

static void optibfm_mcu_say_state(optibfm_mcu *m)
{
	optibfm_mcu_begin(m, optibfm_mcu_state_is);
	optibfm_mcu_put8(m, m->state);
	optibfm_mcu_put8(m, m->cause);
	optibfm_mcu_put16(m, m->deadman_ms);
	optibfm_mcu_end(m);
}

static void optibfm_mcu_stop(optibfm_mcu *m, uint8_t cause)
{
	m->state = OPTIBFM_MCU_HALTED;
	m->cause = cause;
	m->deadman_ms = 0;
	memcpy(m->outputs_now, m->failsafe, sizeof m->outputs_now);
	m->apply(m->user, m->outputs_now, 0);
}

/* Takes the outputs of a message; refuses what is not finite. */
static int optibfm_mcu_take(optibfm_mcu *m, const uint8_t *p, uint16_t size, float *to)
{
	uint8_t i;
	if (size != (uint16_t)(4 * m->n_outputs))
		return 0;
	for (i = 0; i < m->n_outputs; i++)
		if ((p[4 * i + 3] & 0x7f) == 0x7f && (p[4 * i + 2] & 0x80) != 0)
			return 0; /* the exponent of infinity and NaN */
	for (i = 0; i < m->n_outputs; i++)
		to[i] = optibfm_mcu_get_float(p + 4 * i);
	return 1;
}

static void optibfm_mcu_describe_one(optibfm_mcu *m, uint8_t index)
{
	const optibfm_mcu_channel *c;
	if (index < m->n_inputs)
		c = &m->inputs[index];
	else if (index - m->n_inputs < m->n_outputs)
		c = &m->outputs[index - m->n_inputs];
	else
		return;
	optibfm_mcu_begin(m, optibfm_mcu_channel_is);
	optibfm_mcu_put8(m, index);
	optibfm_mcu_put_text(m, c->name);
	optibfm_mcu_put8(m, 0);
	optibfm_mcu_put_text(m, c->unit);
	optibfm_mcu_end(m);
}

static void optibfm_mcu_handle(optibfm_mcu *m, uint8_t type, uint8_t seq, const uint8_t *p, uint16_t size, uint32_t now_us)
{
	uint16_t deadman = size >= 2 ? optibfm_mcu_get16(p) : 0;
	switch (type) {
	case optibfm_mcu_hello:
		optibfm_mcu_begin(m, optibfm_mcu_welcome);
		optibfm_mcu_put8(m, OPTIBFM_MCU_VERSION);
		optibfm_mcu_put8(m, m->n_inputs);
		optibfm_mcu_put8(m, m->n_outputs);
		optibfm_mcu_put_text(m, m->name);
		optibfm_mcu_end(m);
		break;
	case optibfm_mcu_describe:
		if (size == 1)
			optibfm_mcu_describe_one(m, p[0]);
		break;
	case optibfm_mcu_arm:
		if (size != 2 || deadman == 0)
			break;
		if (m->fault == 0) {
			m->state = OPTIBFM_MCU_ARMED;
			m->cause = OPTIBFM_MCU_CAUSE_NONE;
			m->deadman_ms = deadman;
			m->heard_us = now_us;
			/* No apply before the first COMMAND: a joint without
			 * power would leap to its failsafe output. */
		}
		optibfm_mcu_say_state(m);
		break;
	case optibfm_mcu_command:
		if (m->state != OPTIBFM_MCU_ARMED || deadman == 0 || !optibfm_mcu_take(m, p + 2, (uint16_t)(size - 2), m->outputs_now))
			break;
		m->deadman_ms = deadman;
		m->heard_us = now_us;
		m->command_seq = seq;
		m->apply(m->user, m->outputs_now, 1);
		break;
	case optibfm_mcu_halt:
		optibfm_mcu_take(m, p, size, m->failsafe); /* a bad one halts too, with the failsafe that there is */
		optibfm_mcu_stop(m, m->fault != 0 ? m->fault : (uint8_t)OPTIBFM_MCU_CAUSE_HALT);
		optibfm_mcu_say_state(m);
		break;
	default:
		break;
	}
}

/* A zero has arrived: the frame in rx is whole, or nothing. */
static void optibfm_mcu_frame(optibfm_mcu *m, uint32_t now_us)
{
	uint16_t in = 0, out = 0, i, crc = 0xffff;
	while (in < m->rx_size) {
		uint16_t block = m->rx[in];
		if (block > m->rx_size - in)
			return; /* the gap in seq will count it */
		for (i = 1; i < block; i++)
			m->rx[out++] = m->rx[in + i];
		in = (uint16_t)(in + block);
		if (in < m->rx_size)
			m->rx[out++] = 0;
	}
	for (i = 0; i + 2 < out; i++)
		crc = optibfm_mcu_crc(crc, m->rx[i]);
	if (out < 4 || crc != optibfm_mcu_get16(m->rx + out - 2))
		return;
	if (m->rx_started)
		m->lost = (uint16_t)(m->lost + (uint8_t)(m->rx[1] - m->rx_seq));
	m->rx_started = 1;
	m->rx_seq = (uint8_t)(m->rx[1] + 1);
	optibfm_mcu_handle(m, m->rx[0], m->rx[1], m->rx + 2, (uint16_t)(out - 4), now_us);
}

void optibfm_mcu_init(optibfm_mcu *m)
{
	m->fault = m->tx_seq = m->rx_seq = m->rx_started = m->command_seq = 0;
	m->lost = m->rx_size = 0;
	m->skip = 1; /* what is under way has not been seen from its beginning */
	memset(m->failsafe, 0, sizeof m->failsafe);
	optibfm_mcu_stop(m, OPTIBFM_MCU_CAUSE_BOOT);
}

void optibfm_mcu_receive(optibfm_mcu *m, uint8_t byte, uint32_t now_us)
{
	if (byte == 0) {
		if (!m->skip && m->rx_size > 0)
			optibfm_mcu_frame(m, now_us);
		m->rx_size = 0;
		m->skip = 0;
	} else if (m->rx_size == sizeof m->rx) {
		m->skip = 1; /* longer than any frame */
	} else {
		m->rx[m->rx_size++] = byte;
	}
}

void optibfm_mcu_poll(optibfm_mcu *m, uint32_t now_us)
{
	if (m->state == OPTIBFM_MCU_ARMED && (uint32_t)(now_us - m->heard_us) > (uint32_t)m->deadman_ms * 1000u)
		optibfm_mcu_stop(m, OPTIBFM_MCU_CAUSE_DEADMAN);
}

void optibfm_mcu_sample(optibfm_mcu *m, const float *values, uint32_t at_us)
{
	uint8_t i;
	optibfm_mcu_begin(m, optibfm_mcu_sample_is);
	optibfm_mcu_put32(m, at_us);
	optibfm_mcu_put8(m, m->state);
	optibfm_mcu_put8(m, m->cause);
	optibfm_mcu_put16(m, m->deadman_ms);
	optibfm_mcu_put8(m, m->command_seq);
	optibfm_mcu_put16(m, m->lost);
	for (i = 0; i < m->n_inputs; i++) {
		uint32_t bits;
		memcpy(&bits, &values[i], sizeof bits);
		optibfm_mcu_put32(m, bits);
	}
	optibfm_mcu_end(m);
}

void optibfm_mcu_fault(optibfm_mcu *m, uint8_t cause)
{
	m->fault = cause;
	optibfm_mcu_stop(m, cause);
}

void optibfm_mcu_clear_fault(optibfm_mcu *m)
{
	m->fault = 0;
}

#endif /* OPTIBFM_MCU_IMPLEMENTATION */
#endif /* OPTIBFM_MCU_H */
