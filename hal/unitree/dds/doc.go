// Package dds sends and receives the messages of package idl with Cyclone DDS, whose
// C library libddsc it loads at run time.
//
// Unitree's robots run Cyclone DDS 0.10.2. Only 0.10.x is accepted: a participant of
// version 11 can make the participants of 0.10 crash when they discover it.
//
// The library starts threads. Therefore only the writer processes of hal/unitree and
// tools load it, never a control process.
//
// [Reader.Take] and [Writer.Write] allocate nothing. Several goroutines may open
// endpoints; one goroutine uses an endpoint.
package dds
