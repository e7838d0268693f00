package doctor

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func linkMessage(name string, hardware uint16, flags uint32, parts ...[]byte) []byte {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint16(body[2:], hardware)
	binary.NativeEndian.PutUint32(body[8:], flags)
	body = append(body, attribute(unix.IFLA_IFNAME, append([]byte(name), 0))...)
	body = append(body, slices.Concat(parts...)...)
	head := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	head = binary.NativeEndian.AppendUint16(head, syscall.RTM_NEWLINK)
	return append(append(head, make([]byte, unix.SizeofNlMsghdr-len(head))...), body...)
}

func canInfo(kind string, bitrate, state, restart uint32) []byte {
	data := slices.Concat(attribute(canBitTiming, append(word(bitrate), make([]byte, 28)...)), attribute(canState, word(state)), attribute(canRestartMS, word(restart)))
	return attribute(unix.IFLA_LINKINFO, slices.Concat(attribute(unix.IFLA_INFO_KIND, append([]byte(kind), 0)), attribute(unix.IFLA_INFO_DATA|0x8000, data)))
}

func TestCANInterfacesAreJudgedByTheKernelsDescription(t *testing.T) {
	answer := slices.Concat(
		linkMessage("lo", unix.ARPHRD_LOOPBACK, unix.IFF_UP),
		linkMessage("good0", unix.ARPHRD_CAN, unix.IFF_UP, attribute(unix.IFLA_TXQLEN, word(64)), canInfo("can", 1_000_000, 0, 100)),
		linkMessage("short0", unix.ARPHRD_CAN, unix.IFF_UP, attribute(unix.IFLA_TXQLEN, word(1)), canInfo("can", 1_000_000, 0, 100)),
		linkMessage("stays0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("can", 500_000, 0, 0)),
		linkMessage("down0", unix.ARPHRD_CAN, 0, canInfo("can", 0, canStopped, 0)),
		linkMessage("rate0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("can", 0, 0, 0)),
		linkMessage("off0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("can", 1_000_000, canBusOff, 100)),
		linkMessage("alone0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("can", 1_000_000, canPassive, 100)),
		linkMessage("virtual0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("vcan", 0, 0, 0)),
	)
	m := fakeMachine(tree())
	m.links = func() ([]byte, error) { return answer, nil }
	d := examined(t, m, "composite")
	for name, c := range map[string]struct {
		status string
		words  []string
	}{
		"good0": {statusOK, []string{"1000000 bit/s, restart after 100 ms"}}, "lo": {statusFail, []string{"is no CAN interface"}},
		"stays0": {statusWarn, []string{"does not come back", "restart-ms"}}, "down0": {statusFail, []string{"is down", "ip link set down0"}},
		"rate0": {statusFail, []string{"no bit rate"}}, "off0": {statusFail, []string{"bus-off", "120 Ω"}},
		"alone0": {statusWarn, []string{"error-passive"}}, "virtual0": {statusOK, []string{"virtual"}},
		"none0": {statusFail, []string{"there is no interface"}}, "unix:/tmp/s": {statusSkip, []string{"simulator"}},
	} {
		found := d.interfaces(t.Context(), []connection{{"leg", onCAN, name, 0}})
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
		}
		verdict(t, name, found[0], c.status, c.words...)
	}
	if found := d.interfaces(t.Context(), []connection{{"leg", onCAN, "short0", 0}}); len(found) != 2 {
		t.Errorf("%+v", found)
	} else {
		verdict(t, "queue", found[1], statusWarn, "1 frames", "txqueuelen")
	}
	d.links = func() ([]byte, error) { return nil, unix.EPERM }
	verdict(t, "refused", d.interfaces(t.Context(), []connection{{"leg", onCAN, "can0", 0}})[0], statusWarn, "not permitted")
}

func TestTheKernelTellsOfItsOwnInterfaces(t *testing.T) {
	answer, err := ThisMachine().links()
	if err != nil {
		t.Skip("no rtnetlink here:", err)
	}
	links, err := parseLinks(answer)
	if err != nil || links["lo"].hardware != unix.ARPHRD_LOOPBACK {
		t.Errorf("%+v, %v", links, err)
	}
}

func FuzzAnyAnswerAboutInterfacesIsReadWithoutPanic(f *testing.F) {
	f.Add(linkMessage("can0", unix.ARPHRD_CAN, unix.IFF_UP, canInfo("can", 1_000_000, 0, 100)))
	f.Add(linkMessage("c", unix.ARPHRD_CAN, 0, attribute(unix.IFLA_LINKINFO, []byte{1, 0, 0, 0}), attribute(unix.IFLA_TXQLEN, []byte{1})))
	f.Fuzz(func(t *testing.T, answer []byte) {
		links, err := parseLinks(answer)
		if err != nil && links != nil {
			t.Error("interfaces and an error")
		}
	})
}
