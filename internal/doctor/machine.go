package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warthog618/go-gpiocdev"
	"golang.org/x/sys/unix"

	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/rewardsrc/evdev"
)

// machine is the computer as the doctor sees it. Tests have others.
type machine struct {
	files fs.FS // rooted at /
	pid   int   // whose threads are not "others"
	user  identity
	// access reports whether this user may read and write a file, without
	// opening it.
	access func(path string) error
	// links is the kernel's answer to RTM_GETLINK.
	links func() ([]byte, error)
	// wallClock is the kernel's clock discipline, adjtimex(2).
	wallClock func() (unix.Timex, int, error)
	// clockLook is how long a look at CLOCK_MONOTONIC takes.
	clockLook func() time.Duration
	// space is statfs(2).
	space func(path string) (unix.Statfs_t, error)
	// line tells what is known of a GPIO line without requesting it. An empty
	// chip is any.
	line     func(chip, line string) (lineState, error)
	inputs   evdev.System
	hardware setup.Hardware
	// program runs this program with arguments and returns what it printed.
	program func(ctx context.Context, args ...string) (string, error)
}

// identity is who the doctor runs as.
type identity struct {
	Name   string
	UID    int
	Groups []string
}

// lineState is a GPIO line.
type lineState struct {
	Chip   string
	Offset int
	Name   string
	Used   bool
	By     string
}

// ThisMachine is the computer that the program runs on.
func ThisMachine() machine {
	return machine{
		files: os.DirFS("/"), pid: os.Getpid(), user: whoAmI(),
		access: func(path string) error {
			return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
		},
		links:     func() ([]byte, error) { return syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC) },
		wallClock: readWallClock, clockLook: lookAtClock,
		space: func(path string) (s unix.Statfs_t, err error) {
			return s, unix.Statfs(path, &s)
		},
		line: readLine, inputs: setup.InputDevices, hardware: setup.LocalHardware, program: runItself,
	}
}

func whoAmI() identity {
	who := identity{UID: os.Geteuid()}
	who.Name = strconv.Itoa(who.UID)
	if u, err := user.LookupId(who.Name); err == nil {
		who.Name = u.Username
	}
	ids, _ := os.Getgroups() // none is also an answer
	for _, id := range ids {
		name := strconv.Itoa(id)
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		who.Groups = append(who.Groups, name)
	}
	return who
}

func readWallClock() (unix.Timex, int, error) {
	var t unix.Timex // no modes: it only reads
	state, err := unix.Adjtimex(&t)
	return t, state, err
}

// readLine asks for a line's information, which changes nothing.
func readLine(chip, line string) (lineState, error) {
	offset, err := strconv.Atoi(line)
	if chip == "" {
		chip, offset, err = gpiocdev.FindLine(line)
		if err != nil {
			return lineState{}, err
		}
	}
	c, openErr := gpiocdev.NewChip(chip)
	if openErr != nil {
		return lineState{}, openErr
	}
	defer c.Close()
	if err != nil { // no number: a name
		if offset, err = c.FindLine(line); err != nil {
			return lineState{}, err
		}
	}
	info, err := c.LineInfo(offset)
	return lineState{Chip: c.Name, Offset: offset, Name: info.Name, Used: info.Used, By: info.Consumer}, err
}

func runItself(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	said, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(said)), err
}

// named turns an absolute path into one of m.files.
func named(p string) string {
	return cmp.Or(strings.TrimPrefix(path.Clean("/"+p), "/"), ".")
}

// read returns a small file of the system, without the spaces around it; ok is
// false where it cannot be read.
func (m machine) read(p string) (text string, ok bool) {
	b, err := fs.ReadFile(m.files, named(p))
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00")), err == nil
}

// number reads a file with a whole number.
func (m machine) number(p string) (int64, bool) {
	text, ok := m.read(p)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// glob lists files by a pattern, as absolute paths.
func (m machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.files, named(pattern)) // patterns are ours and right
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names
}

// cpuList reads a file with a list such as 0-3,6; ok is false where there is
// none.
func (m machine) cpuList(p string) (cpus []int, ok bool) {
	text, ok := m.read(p)
	if !ok {
		return nil, false
	}
	return parseCPUs(text), true
}

// parseCPUs reads the kernel's format of processor lists; what it cannot read
// it leaves out.
func parseCPUs(text string) (cpus []int) {
	const most = 4096
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to >= most {
			continue
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// showCPUs writes a list of processors the short way.
func showCPUs(cpus []int) string {
	cpus = slices.Compact(slices.Sorted(slices.Values(cpus)))
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// Title is what the computer calls itself.
func (m machine) Title() string {
	for _, p := range []string{"/proc/device-tree/model", "/sys/class/dmi/id/product_name"} {
		if text, ok := m.read(p); ok && text != "" {
			return plaintext.Clean(text)
		}
	}
	return "computer"
}

// reach looks at a device file without opening it. what is a word for it, and
// subsystem that of udev; missing is the mend where there is none.
func (m machine) reach(p, what, subsystem, missing string) finding {
	absolute, err := filepath.Abs(p)
	if err != nil {
		return broken("write an absolute path", "%s: %v", p, err)
	}
	info, err := fs.Stat(m.files, named(absolute))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return broken(missing, "%s is not there", absolute)
	case err != nil && !errors.Is(err, fs.ErrPermission):
		return broken(missing, "%s: %v", absolute, err)
	case err == nil && info.Mode()&fs.ModeCharDevice == 0:
		return broken("name the device, not another file", "%s is no %s", absolute, what)
	}
	if err := m.access(absolute); err != nil {
		return m.refused(absolute, subsystem, info, err)
	}
	return fine("%s: there, and this user may use it", absolute)
}

// refused says how this user is let at a device.
func (m machine) refused(p, subsystem string, info fs.FileInfo, err error) finding {
	const groupBits = 0o060
	group, rights := "", "unknown"
	if info != nil {
		group, rights = m.groupOf(info), info.Mode().Perm().String()
		if group != "root" && group != "" && info.Mode()&groupBits == groupBits {
			return broken(fmt.Sprintf("`sudo usermod -aG %s %s`, then start the service again", group, m.user.Name),
				"%s: %v for %s: its group is %s", p, err, m.user.Name, group)
		}
	}
	rule := fmt.Sprintf("`SUBSYSTEM==%q, GROUP=%q, MODE=\"0660\"`", subsystem, "optibfm")
	return broken("write "+rule+" to `/etc/udev/rules.d/60-optibfm.rules`, put the user into that group, `sudo udevadm control --reload`, `sudo udevadm trigger`",
		"%s: %v for %s: group %s, %s", p, err, m.user.Name, cmp.Or(group, "unknown"), rights)
}

// groupOf is the name of a file's group, by /etc/group.
func (m machine) groupOf(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	id := strconv.FormatUint(uint64(stat.Gid), 10)
	table, _ := m.read("/etc/group")
	for line := range strings.Lines(table) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) > 2 && fields[2] == id {
			return fields[0]
		}
	}
	return id
}
