# The dumbbell of bench/dumbbell.py in ns-2: as many SACK connections as asked for, each with its own pair of hosts,
# share one bottleneck.
#
#     ns bench/dumbbell.tcl FLOWS SECONDS
#
# Prints the data packets delivered in order, in all.

if {$argc != 2} {
    puts stderr "usage: ns dumbbell.tcl FLOWS SECONDS"
    exit 2
}
set flows [lindex $argv 0]
set seconds [lindex $argv 1]

# 1460 bytes of data and 40 of headers; the window never limits.
Agent/TCP set packetSize_ 1460
Agent/TCP set useHeaders_ true
Agent/TCP set window_ 2000
Agent/TCP set windowInit_ 10
Agent/TCP set tcpTick_ 0.001
Agent/TCP set minrto_ 1.0
Agent/TCPSink/Sack1/DelAck set interval_ 200ms

# Packets carry the headers that this simulation reads and no others, as ns's authors advise for speed.
remove-all-packet-headers
add-packet-header IP TCP Flags

set ns [new Simulator]
$ns use-scheduler Calendar

# 1 + 8 + 1 ms each way; the bottleneck's queue holds the path's product of rate and round trip, 167 packets.
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right 100Mb 8ms DropTail
$ns queue-limit $left $right 167
$ns queue-limit $right $left 10000

for {set i 0} {$i < $flows} {incr i} {
    set from [$ns node]
    set to [$ns node]
    $ns duplex-link $from $left 1000Mb 1ms DropTail
    $ns duplex-link $right $to 1000Mb 1ms DropTail
    $ns queue-limit $from $left 10000
    $ns queue-limit $right $to 10000
    $ns queue-limit $left $from 10000
    $ns queue-limit $to $right 10000

    set tcp($i) [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $ns attach-agent $from $tcp($i)
    $ns attach-agent $to $sink
    $ns connect $tcp($i) $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    # Spread over a second, so that the connections do not march in step.
    $ns at [expr {double($i) / $flows}] "$ftp start"
}

proc finish {} {
    global tcp flows
    set delivered 0
    for {set i 0} {$i < $flows} {incr i} {
        incr delivered [expr {[$tcp($i) set ack_] + 1}]
    }
    puts $delivered
    exit 0
}
$ns at $seconds "finish"
$ns run
