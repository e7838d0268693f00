// Package cp2112test simulates a Silicon Labs CP2112, a USB adapter with an I²C bus and eight GPIO
// lines, behind the kernel's driver hid-cp2112: the test answers its HID reports (AN495) through
// /dev/uhid. It is for the machine of scripts/vm and needs root.
package cp2112test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warthog618/go-gpiocdev"

	"optibfm/hal/i2cbus"
)

// Adapter is a connected adapter.
type Adapter struct {
	Bus  string // /dev/i2c-3
	Chip string // gpiochip2

	file     *os.File
	polled   *gpiocdev.Line // nil before KeepPolling
	transact func(addr uint16, w, r []byte) error
	event    [8192]byte // struct uhid_event, from the kernel
	reply    [128]byte  // to the kernel
	data     [512]byte  // read on the bus
	unread   []byte
	status   [7]byte // the answer to the next request for it
	ready    atomic.Bool

	mu                   sync.Mutex
	input, latch, output byte // levels from outside, levels from inside, directions
	reads                int  // of the levels
}

var created atomic.Int32

// New connects an adapter and waits for its devices. transact makes the transactions of the bus;
// nil: no device answers.
func New(transact func(addr uint16, w, r []byte) error) (*Adapter, error) {
	file, err := os.OpenFile("/dev/uhid", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cp2112test: %w", err)
	}
	if transact == nil {
		transact = func(uint16, []byte, []byte) error { return syscall.ENXIO }
	}
	a := &Adapter{file: file, transact: transact}
	name := fmt.Sprintf("optibfm-%d-%d", os.Getpid(), created.Add(1))
	if err := a.create(name); err != nil {
		return nil, fmt.Errorf("cp2112test: %w", errors.Join(err, file.Close()))
	}
	go a.serve()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if a.find(name) && a.works() {
			return a, nil
		}
		if time.Now().After(deadline) {
			err := errors.New("the kernel's driver does not accept the adapter")
			return nil, fmt.Errorf("cp2112test: %w", errors.Join(err, file.Close()))
		}
	}
}

// Close unplugs the adapter.
func (a *Adapter) Close() error {
	err := a.file.Close()
	if a.polled != nil {
		err = errors.Join(err, a.polled.Close())
	}
	return err
}

// KeepPolling makes the driver poll until Close: it requests line 7 with edge events. Call it
// before a program requests such lines. Linux 6.1 hangs if the last of them is released during a
// poll, or one of them while a poll handles its edge. The first poll reports an edge for each high
// line; KeepPolling returns after this poll.
func (a *Adapter) KeepPolling() (err error) {
	ignore := gpiocdev.WithEventHandler(func(gpiocdev.LineEvent) {})
	if a.polled, err = gpiocdev.RequestLine(a.Chip, 7, gpiocdev.WithBothEdges, ignore); err != nil {
		return fmt.Errorf("cp2112test: line 7: %w", err)
	}
	for a.Reads() < 2 {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Set sets the levels of the lines from outside. Lines are inputs unless a program makes them
// outputs.
func (a *Adapter) Set(levels byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.input = levels
}

// Reads returns the number of times that the driver has read the levels. It polls lines with edge
// events.
func (a *Adapter) Reads() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

// Outputs returns which lines are outputs, and their levels.
func (a *Adapter) Outputs() (lines, levels byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.output, a.output & a.latch
}

// find finds the devices that the driver made for the adapter with this name.
func (a *Adapter) find(name string) bool {
	adapters, _ := filepath.Glob("/sys/bus/hid/devices/0003:10C4:EA90.*")
	for _, folder := range adapters {
		properties, _ := os.ReadFile(filepath.Join(folder, "uevent"))
		if !strings.Contains(string(properties), "HID_UNIQ="+name+"\n") {
			continue
		}
		bus, _ := filepath.Glob(filepath.Join(folder, "i2c-*"))
		chip, _ := filepath.Glob(filepath.Join(folder, "gpiochip*"))
		if len(bus) != 1 || len(chip) != 1 {
			return false
		}
		a.Bus, a.Chip = "/dev/"+filepath.Base(bus[0]), filepath.Base(chip[0])
		_, busErr := os.Stat(a.Bus)
		_, chipErr := os.Stat("/dev/" + a.Chip)
		return busErr == nil && chipErr == nil
	}
	return false
}

// works makes a transaction: the driver ignores the adapter's reports until its probe has ended.
func (a *Adapter) works() bool {
	bus, err := i2cbus.Open(a.Bus, i2cbus.DefaultTimeout)
	if err != nil {
		return false
	}
	err = bus.Tx(0x08, []byte{0}, nil)
	_ = bus.Close()
	a.ready.Store(err == nil)
	return err == nil
}

// Events of the kernel's include/uapi/linux/uhid.h.
const (
	uhidOutput         = 6
	uhidGetReport      = 9
	uhidGetReportReply = 10
	uhidCreate         = 11
	uhidInput          = 12
	uhidSetReport      = 13
	uhidSetReportReply = 14
)

// Reports.
const (
	gpioConfig    = 0x02
	gpioGet       = 0x03
	gpioSet       = 0x04
	version       = 0x05
	read          = 0x10
	writeRead     = 0x11
	forceRead     = 0x12
	readResponse  = 0x13
	write         = 0x14
	statusRequest = 0x15
	statusReport  = 0x16
)

// descriptor declares the two input reports, of vendor-defined bytes.
var descriptor = []byte{
	0x06, 0x00, 0xFF, 0x09, 0x01, 0xA1, 0x01, 0x15, 0x00, 0x26, 0xFF, 0x00, 0x75, 0x08,
	0x85, readResponse, 0x09, 0x01, 0x95, 63, 0x81, 0x02,
	0x85, statusReport, 0x09, 0x01, 0x95, 6, 0x81, 0x02,
	0xC0,
}

func (a *Adapter) create(name string) error {
	e := make([]byte, 4+128+64+64+20, 512)
	put := binary.NativeEndian
	put.PutUint32(e, uhidCreate)
	copy(e[4:], "CP2112")
	copy(e[4+128+64:], name)
	tail := e[4+128+64+64:]
	put.PutUint16(tail, uint16(len(descriptor)))
	put.PutUint16(tail[2:], 3) // BUS_USB
	put.PutUint32(tail[4:], 0x10C4)
	put.PutUint32(tail[8:], 0xEA90)
	_, err := a.file.Write(append(e, descriptor...))
	return err
}

// serve answers the driver until the adapter is unplugged.
func (a *Adapter) serve() {
	for {
		if _, err := a.file.Read(a.event[:]); err != nil {
			return
		}
		e := a.event[4:]
		switch binary.NativeEndian.Uint32(a.event[:]) {
		case uhidGetReport:
			a.feature(e)
		case uhidSetReport:
			a.setFeature(e[4], e[8:])
			a.send(uhidSetReportReply, e[:4], []byte{0, 0})
		case uhidOutput:
			a.execute(e)
		}
	}
}

// send writes an event of two parts.
func (a *Adapter) send(kind uint32, head, body []byte) {
	b := binary.NativeEndian.AppendUint32(a.reply[:0], kind)
	_, _ = a.file.Write(append(append(b, head...), body...))
}

// feature answers a request: its number, then the report's.
func (a *Adapter) feature(request []byte) {
	var head [8]byte // number, error, length
	var report [14]byte
	copy(head[:], request[:4])
	report[0] = request[4]
	a.mu.Lock()
	switch report[0] {
	case gpioConfig:
		report[1] = a.output
	case gpioGet:
		a.reads++
		report[1] = a.input&^a.output | a.latch&a.output
	case version:
		report[2] = 2
	}
	a.mu.Unlock()
	length := map[byte]uint16{gpioConfig: 5, gpioGet: 2, version: 3, 0x06: 14, 0x20: 2}[report[0]]
	binary.NativeEndian.PutUint16(head[6:], length)
	a.send(uhidGetReportReply, head[:], report[:length])
}

func (a *Adapter) setFeature(number byte, report []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch number {
	case gpioConfig:
		a.output = report[1]
	case gpioSet:
		a.latch = a.latch&^report[2] | report[1]&report[2]
	}
}

func (a *Adapter) execute(report []byte) {
	addr := uint16(report[1] >> 1)
	switch report[0] {
	case read:
		a.transfer(addr, nil, binary.BigEndian.Uint16(report[2:]))
	case writeRead:
		a.transfer(addr, report[5:5+report[4]], binary.BigEndian.Uint16(report[2:]))
	case write:
		a.transfer(addr, report[3:3+report[2]], 0)
	case statusRequest:
		a.send(uhidInput, []byte{7, 0}, a.status[:])
	case forceRead:
		var response [64]byte
		n := copy(response[3:], a.unread)
		a.unread = a.unread[n:]
		response[0], response[2] = readResponse, byte(n)
		a.send(uhidInput, []byte{64, 0}, response[:])
	}
}

// transfer makes a transaction. A blocked bus stays busy until the driver cancels; a device that
// does not answer is an incomplete transfer.
func (a *Adapter) transfer(addr uint16, w []byte, length uint16) {
	a.unread = a.data[:length]
	a.status = [7]byte{0: statusReport, 1: 2, 2: 5} // complete
	if !a.ready.Load() {
		return
	}
	switch err := a.transact(addr, w, a.unread); {
	case errors.Is(err, syscall.ETIMEDOUT):
		a.status[1] = 1
	case err != nil:
		a.status[1], a.status[2] = 3, 4
	}
}
