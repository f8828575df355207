/* Sends numbered UDP packets, or receives them, and writes down when the kernel sent or received each.
 *
 *     stamps send FROM TO PORT MBIT_PER_S BYTES SECONDS FILE
 *     stamps receive ADDRESS PORT FILE
 *
 * BYTES are those of the IP packet. The file has 16 bytes for each packet: its number and the time in nanoseconds of
 * CLOCK_REALTIME, at which it was handed to the sender's device, or came from the receiver's: SO_TIMESTAMPING, software time
 * stamps (Linux Documentation/networking/timestamping.rst). When this program itself is scheduled is no part of either.
 * `receive` ends a second after the last packet. None of headend's code is in it: it judges headend's emulator.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, HEADER_BYTES = 28, BUFFER_BYTES = 128 << 20, TICK_NS = 100000 };

static FILE *file;
static int udp;
static volatile int sent_all;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set(int level, int option, int value)
{
	if (setsockopt(udp, level, option, &value, sizeof value))
		die("setsockopt");
}

static struct sockaddr_in address(const char *text, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		die(text);
	return address;
}

/* Takes what has come, or what the kernel says of what was sent, and writes it down; how many. */
static int take(int flags)
{
	static char payloads[BATCH][8], controls[BATCH][512];
	struct iovec parts[BATCH];
	struct mmsghdr messages[BATCH];
	memset(messages, 0, sizeof messages);
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){ payloads[i], sizeof payloads[i] };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1, .msg_control = controls[i],
						       .msg_controllen = sizeof controls[i] };
	}
	int count = recvmmsg(udp, messages, BATCH, flags | MSG_DONTWAIT, NULL);
	if (count < 0 && errno != EAGAIN && errno != EINTR)
		die("recvmmsg");
	for (int i = 0; i < count; i++) {
		uint64_t record[2] = { 0, 0 };
		memcpy(record, payloads[i], sizeof payloads[i]);
		struct msghdr *header = &messages[i].msg_hdr;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
				struct scm_timestamping *stamps = (void *)CMSG_DATA(c);
				record[1] = stamps->ts[0].tv_sec * 1000000000ULL + stamps->ts[0].tv_nsec;
			} else if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) {
				/* Which of the packets sent: they are counted from 0 on. */
				record[0] = ((struct sock_extended_err *)CMSG_DATA(c))->ee_data;
			}
		}
		if (record[1] && fwrite(record, sizeof record, 1, file) != 1)
			die("write");
	}
	return count;
}

static void *note(void *nothing)
{
	struct pollfd wait = { .fd = udp };
	for (;;) {
		int before_the_last = sent_all;
		while (take(MSG_ERRQUEUE) > 0)
			;
		if (before_the_last)
			return nothing;
		poll(&wait, 1, 10);
	}
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void send_all(char **word)
{
	struct sockaddr_in from = address(word[0], "0"), to = address(word[1], word[2]);
	double mbit_per_s = atof(word[3]);
	int bytes = atoi(word[4]) - HEADER_BYTES;
	uint64_t span = atof(word[5]) * 1e9, number = 0;
	if (bind(udp, (void *)&from, sizeof from) || connect(udp, (void *)&to, sizeof to))
		die("connect");
	set(SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES);
	set(SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES);
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
						 SOF_TIMESTAMPING_OPT_TSONLY);
	static char payloads[BATCH][65536];
	struct iovec parts[BATCH];
	struct mmsghdr messages[BATCH];
	memset(messages, 0, sizeof messages);
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){ payloads[i], bytes };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	pthread_t noter;
	if (pthread_create(&noter, NULL, note, NULL))
		die("pthread_create");
	for (uint64_t start = now(), elapsed; (elapsed = now() - start) < span;) {
		uint64_t due = elapsed * mbit_per_s / (8000.0 * (bytes + HEADER_BYTES)) + 1;
		if (number >= due) {
			uint64_t wait = start + number * 8000.0 * (bytes + HEADER_BYTES) / mbit_per_s - now();
			struct timespec pause = { .tv_sec = 0, .tv_nsec = wait < TICK_NS || wait > 999999999 ? TICK_NS : wait };
			nanosleep(&pause, NULL);
			continue;
		}
		int count = due - number < BATCH ? due - number : BATCH;
		for (int i = 0; i < count; i++) {
			uint64_t own = number + i;
			memcpy(payloads[i], &own, sizeof own);
		}
		int sent = sendmmsg(udp, messages, count, 0);
		if (sent < 0)
			die("sendmmsg");
		number += sent;
	}
	usleep(200000);
	sent_all = 1;
	pthread_join(noter, NULL);
	printf("%llu\n", (unsigned long long)number);
}

static void receive_all(char **word)
{
	struct sockaddr_in at = address(word[0], word[1]);
	if (bind(udp, (void *)&at, sizeof at))
		die("bind");
	set(SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES);
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
	printf("ready\n");
	fflush(stdout);
	struct pollfd wait = { .fd = udp, .events = POLLIN };
	for (int patience_ms = 10000; poll(&wait, 1, patience_ms) > 0; patience_ms = 1000)
		while (take(0) > 0)
			;
}

int main(int count, char **word)
{
	int sends = count == 9 && !strcmp(word[1], "send"), receives = count == 5 && !strcmp(word[1], "receive");
	if (!sends && !receives) {
		fprintf(stderr, "expected send FROM TO PORT MBIT_PER_S BYTES SECONDS FILE, or receive ADDRESS PORT FILE\n");
		return 2;
	}
	file = fopen(word[count - 1], "wb");
	if (!file)
		die(word[count - 1]);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (udp < 0)
		die("socket");
	sends ? send_all(word + 2) : receive_all(word + 2);
	if (fclose(file))
		die("write");
	return 0;
}
