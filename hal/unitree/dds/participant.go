package dds

import (
	"encoding/xml"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"optibfm/hal/unitree/idl"
)

// Loopback is the interface without multicast, for simulators.
const Loopback = "lo"

// GUID identifies a participant on the network.
type GUID [16]byte

// Participant is this process in a DDS domain, on one network interface.
type Participant struct {
	lib    *Library
	domain int32
	entity int32

	openMutex sync.Mutex // of endpoints: it guards topics and the library's texts
	topics    map[string]int32
}

// Join opens a participant in a domain, on one interface. A process has at most one for each
// domain.
func (l *Library) Join(domain uint32, networkInterface string) (*Participant, error) {
	p := &Participant{lib: l, topics: map[string]int32{}}
	var err error
	config := l.text(configuration(networkInterface))
	if p.domain, err = l.entity("domain", l.call.createDomain, uintptr(domain), config); err != nil {
		return nil, fmt.Errorf("%w; check that the network interface %q exists and has an address", err, networkInterface)
	}
	if p.entity, err = l.entity("participant", l.call.createParticipant, uintptr(domain), 0, 0); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// configuration returns the settings of Cyclone DDS. They replace those of CYCLONEDDS_URI. The
// loopback interface has no multicast: participants there find each other by the ports of the first
// participants.
func configuration(networkInterface string) string {
	var name strings.Builder
	_ = xml.EscapeText(&name, []byte(networkInterface)) // a strings.Builder does not fail
	general := `<Interfaces><NetworkInterface name="` + name.String() + `"/></Interfaces>`
	discovery := ""
	if networkInterface == Loopback {
		general += `<AllowMulticast>false</AllowMulticast>`
		discovery = `<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32` +
			`</MaxAutoParticipantIndex><Peers><Peer address="localhost"/></Peers></Discovery>`
	}
	return `<CycloneDDS><Domain Id="any"><General>` + general + `</General>` + discovery + `</Domain></CycloneDDS>`
}

// entity calls a function that returns an entity.
func (l *Library) entity(what string, function uintptr, arguments ...uintptr) (int32, error) {
	r, _, _ := purego.SyscallN(function, arguments...)
	if e := int32(r); e <= 0 {
		return 0, fmt.Errorf("dds: %s: %w", what, l.failure(e))
	}
	return int32(r), nil
}

// failure returns the error of a negative result.
func (l *Library) failure(code int32) error {
	text, _, _ := purego.SyscallN(l.call.message, uintptr(-code))
	return errors.New(goString(text))
}

// goString copies a text of C.
func goString(address uintptr) string {
	if address == 0 {
		return ""
	}
	start := pointer(address)
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}

// pointer returns an address that is not on Go's heap.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// text returns a text for C, which stays.
func (l *Library) text(s string) uintptr {
	b := append([]byte(s), 0)
	l.pinner.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// topicDescriptor is dds_topic_descriptor_t.
type topicDescriptor struct {
	size, align, flags, keyCount uint32
	name                         uintptr
	keys                         uintptr
	operations                   uint32
	words                        *uint32
	meta                         uintptr
	typeInformation              [2]uint64
	typeMapping                  [2]uint64
	restricted                   uint32
}

func (p *Participant) topic(name string, d idl.Descriptor) (int32, error) {
	if t, ok := p.topics[name]; ok {
		return t, nil
	}
	c := &topicDescriptor{
		size: d.Size, align: d.Align, flags: d.Flags, operations: d.Operations,
		name: p.lib.text(d.Name), words: &d.Words[0], meta: p.lib.text(""),
	}
	p.lib.pinner.Pin(c)
	p.lib.pinner.Pin(c.words)
	t, err := p.lib.entity(name, p.lib.call.createTopic,
		uintptr(p.entity), uintptr(unsafe.Pointer(c)), p.lib.text(name), 0, 0)
	if err == nil {
		p.topics[name] = t
	}
	return t, err
}

// The kinds of dds_reliability_kind_t.
const (
	bestEffort = 0
	reliable   = 1
)

// endpoint makes a writer or reader of the newest depth messages. Writers are reliable and readers
// are not, as in Unitree's SDK: a lost state is not worth waiting for, and a reliable writer
// matches any reader.
func (p *Participant) endpoint(
	create uintptr, topic string, d idl.Descriptor, reliability, depth uintptr,
) (int32, error) {
	p.openMutex.Lock()
	defer p.openMutex.Unlock()
	t, err := p.topic(topic, d)
	if err != nil {
		return 0, err
	}
	f := &p.lib.call
	qos, _, _ := purego.SyscallN(f.createQos)
	defer purego.SyscallN(f.deleteQos, qos)
	purego.SyscallN(f.setReliability, qos, reliability, uintptr(maxBlocking))
	purego.SyscallN(f.setHistory, qos, 0, depth) // 0: keep last
	return p.lib.entity(topic, create, uintptr(p.entity), uintptr(t), qos, 0)
}

// maxBlocking is the longest time in ns that a write waits for a slow reliable reader.
const maxBlocking = 1_000_000

// GUID returns the identity of the participant.
func (p *Participant) GUID() (g GUID, err error) {
	mem := new(GUID)
	r, _, _ := purego.SyscallN(p.lib.call.guid, uintptr(p.entity), uintptr(unsafe.Pointer(mem)))
	runtime.KeepAlive(mem)
	if c := int32(r); c < 0 {
		return g, fmt.Errorf("dds: guid: %w", p.lib.failure(c))
	}
	return *mem, nil
}

// Close leaves the domain. Do not use an endpoint after it.
func (p *Participant) Close() {
	purego.SyscallN(p.lib.call.delete, uintptr(p.domain))
}
