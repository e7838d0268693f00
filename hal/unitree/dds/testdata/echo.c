// Sends each message of topic "there" back on topic "back", with the functions that idlc generated, and checks its
// checksum over C's structure. Arguments: domain, number of messages. Prints "ready" once it has found the other
// side, then how many messages arrived and how many had a wrong checksum, and ends with its standard input.
#include <dds/dds.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "unitree.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

// CRC-32/MPEG-2 bit by bit, each word most significant byte first, without the last word.
static uint32_t checksum(const void *message, size_t size) {
  uint32_t crc = 0xFFFFFFFF, word;
  for (size_t i = 0; i + 4 < size; i += 4) {
    memcpy(&word, (const char *)message + i, 4);
    for (int bit = 31; bit >= 0; bit--) {
      uint32_t top = (crc >> 31) ^ ((word >> bit) & 1);
      crc = (crc << 1) ^ (top ? 0x04C11DB7 : 0);
    }
  }
  return crc;
}

static dds_entity_t check(dds_entity_t e, const char *what) {
  if (e < 0) {
    fprintf(stderr, "%s: %s\n", what, dds_strretcode(-e));
    exit(1);
  }
  return e;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  static TYPE message; // zero: so is its padding
  const dds_topic_descriptor_t *type = &JOIN(TYPE, _desc);
  dds_entity_t p = check(dds_create_participant(atoi(argv[1]), NULL, NULL), "participant");
  dds_entity_t there = check(dds_create_topic(p, type, "there", NULL, NULL), "topic");
  dds_entity_t back = check(dds_create_topic(p, type, "back", NULL, NULL), "topic");
  dds_entity_t w = check(dds_create_writer(p, back, NULL, NULL), "writer");
  dds_entity_t r = check(dds_create_reader(p, there, NULL, NULL), "reader");
  dds_entity_t set = check(dds_create_waitset(p), "waitset");
  dds_set_status_mask(r, DDS_DATA_AVAILABLE_STATUS);
  check(dds_waitset_attach(set, r, r), "attach");
  dds_subscription_matched_status_t writers = {0};
  dds_publication_matched_status_t readers = {0};
  while (writers.current_count == 0 || readers.current_count == 0) {
    dds_sleepfor(DDS_MSECS(1));
    check(dds_get_subscription_matched_status(r, &writers), "writers");
    check(dds_get_publication_matched_status(w, &readers), "readers");
  }
  printf("ready\n");
  fflush(stdout);
  int received = 0, wrong = 0, total = atoi(argv[2]);
  while (received < total) {
    void *into[1] = {&message};
    dds_sample_info_t info;
    int n = dds_take(r, into, &info, 1, 1);
    if (n <= 0 || !info.valid_data) {
      if (dds_waitset_wait(set, NULL, 0, DDS_SECS(20)) == 0) break; // the other side has ended
      continue;
    }
    received++;
    if (checksum(&message, sizeof message) != message.crc) wrong++;
    check(dds_write(w, &message), "write");
  }
  printf("%d %d\n", received, wrong);
  fflush(stdout);
  getchar(); // a reader that is not reliable may lose the last message of a writer that leaves
  dds_delete(p);
  return 0;
}
