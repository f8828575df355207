/* Short connections, by programs that take little of the processor that they share with a proxy.
 *
 *   calls answer ADDRESS PORT             accepts, and gives each connection its first byte back
 *   calls call FIRST PORT COUNT AT_ONCE   connects to COUNT addresses from the one after FIRST on, AT_ONCE at a time, for one
 *                                         byte there and back each, and prints how many seconds that took
 *
 * A caller ends its connection by a reset, so that no port is kept for a minute.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, BACKLOG = 4096 };

static void must(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "calls: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct sockaddr_in at(const char *address, const char *port)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    must(inet_pton(AF_INET, address, &place.sin_addr) == 1, address);
    return place;
}

static void watch(int epoll, int fd, unsigned events, int how)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    must(epoll_ctl(epoll, how, fd, &event) == 0, "epoll_ctl");
}

static void answer(struct sockaddr_in place)
{
    int epoll = epoll_create1(0), listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(bind(listening, (struct sockaddr *)&place, sizeof place) == 0, "bind");
    must(listen(listening, BACKLOG) == 0, "listen");
    watch(epoll, listening, EPOLLIN, EPOLL_CTL_ADD);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            char byte;
            if (fd == listening) {
                while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    watch(epoll, fd, EPOLLIN, EPOLL_CTL_ADD);
            } else if (read(fd, &byte, 1) == 1) {
                must(write(fd, &byte, 1) == 1 || errno == ECONNRESET || errno == EPIPE, "write");
            } else {
                close(fd);
            }
        }
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void call(struct sockaddr_in place, unsigned count, unsigned at_once)
{
    int epoll = epoll_create1(0);
    unsigned first = ntohl(place.sin_addr.s_addr), begun = 0, done = 0;
    double begin = now();
    while (done < count) {
        while (begun < count && begun - done < at_once) {
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            struct linger none = {.l_onoff = 1, .l_linger = 0};
            must(fd >= 0, "socket");
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
            place.sin_addr.s_addr = htonl(first + ++begun);
            must(connect(fd, (struct sockaddr *)&place, sizeof place) == 0 || errno == EINPROGRESS, "connect");
            watch(epoll, fd, EPOLLOUT, EPOLL_CTL_ADD);
        }
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, 20000);
        must(ready > 0, "nothing came for 20 s");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            char byte = 'x';
            if (events[i].events & EPOLLIN) {
                must(read(fd, &byte, 1) == 1 && byte == 'x', "the byte did not come back");
                close(fd);
                done++;
            } else {
                must(write(fd, &byte, 1) == 1, "a connection failed");
                watch(epoll, fd, EPOLLIN, EPOLL_CTL_MOD);
            }
        }
    }
    printf("{\"calls\": %u, \"seconds\": %.6f}\n", done, now() - begin);
}

int main(int count, char **words)
{
    if (count == 4 && !strcmp(words[1], "answer"))
        answer(at(words[2], words[3]));
    else if (count == 6 && !strcmp(words[1], "call"))
        call(at(words[2], words[3]), (unsigned)atoi(words[4]), (unsigned)atoi(words[5]));
    else
        return fprintf(stderr, "usage: calls answer ADDRESS PORT | calls call FIRST PORT COUNT AT_ONCE\n"), 2;
    return 0;
}
