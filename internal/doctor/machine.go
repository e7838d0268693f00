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
	"strconv"
	"strings"
	"syscall"

	"github.com/warthog618/go-gpiocdev"
	"golang.org/x/sys/unix"

	"optibfm/hal/can"
	"optibfm/internal/jitter"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/rewardsrc/evdev"
	"optibfm/rtloop"
)

// machine is the access of checks to a computer. Tests replace it.
type machine struct {
	files fs.FS // rooted at /
	user  identity
	// access returns nil if this user may read and write a file. It does not open the file.
	access func(path string) error
	group  func(id int) string // name of a group
	// prepare requests the loop's real-time posture and releases it again.
	prepare func(rtloop.Config) (rtloop.Granted, error)
	// measure measures the lateness of wake-ups.
	measure func(context.Context, jitter.Options) (jitter.Result, error)
	// wallClock returns the state of the kernel's clock, adjtimex(2).
	wallClock func() (unix.Timex, int, error)
	// space is statfs(2).
	space func(path string) (unix.Statfs_t, error)
	// link is can.LinkState.
	link func(name string) (can.Link, error)
	// line returns the state of a GPIO line and does not request it. chip "" means any chip.
	line   func(chip, line string) (lineState, error)
	inputs evdev.System
	// buses opens an I²C bus; nil: as the robot does.
	buses func(path string) (registry.I2C, error)
	// program runs this program with arguments and returns its output.
	program func(ctx context.Context, args ...string) (string, error)
}

// identity is the user of the doctor.
type identity struct {
	Name   string
	UID    int
	Groups []string
}

type lineState struct {
	Chip   string
	Offset int
	Used   bool
	By     string // its consumer
}

func thisMachine() machine {
	return machine{
		files: os.DirFS("/"), user: currentUser(),
		access: func(path string) error {
			return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
		},
		group: groupName, prepare: preparePosture, measure: jitter.Measure,
		wallClock: func() (t unix.Timex, state int, err error) {
			state, err = unix.Adjtimex(&t) // no modes: read only
			return t, state, err
		},
		space: func(path string) (s unix.Statfs_t, err error) { return s, unix.Statfs(path, &s) },
		link:  can.LinkState, line: readLine,
		inputs: evdev.Local, program: runProgram,
	}
}

func currentUser() identity {
	who := identity{UID: os.Geteuid()}
	who.Name = strconv.Itoa(who.UID)
	if u, err := user.LookupId(who.Name); err == nil {
		who.Name = u.Username
	}
	ids, _ := os.Getgroups() // an error means no groups
	for _, id := range ids {
		who.Groups = append(who.Groups, groupName(id))
	}
	return who
}

// groupName returns the name of a group, or its number if it has none.
func groupName(id int) string {
	number := strconv.Itoa(id)
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}

func preparePosture(cfg rtloop.Config) (rtloop.Granted, error) {
	cfg.Posture = rtloop.Warn // reports all refusals; strict returns at the first
	loop, granted, err := rtloop.Prepare(cfg)
	if err != nil {
		return granted, err
	}
	loop.Close()
	return granted, nil
}

func readLine(chip, line string) (lineState, error) {
	offset, numberErr := strconv.Atoi(line)
	if chip == "" {
		var err error
		if chip, offset, err = gpiocdev.FindLine(line); err != nil {
			return lineState{}, err
		}
		numberErr = nil
	}
	c, err := gpiocdev.NewChip(chip)
	if err != nil {
		return lineState{}, err
	}
	defer c.Close()
	if numberErr != nil { // a name
		if offset, err = c.FindLine(line); err != nil {
			return lineState{}, err
		}
	}
	info, err := c.LineInfo(offset)
	return lineState{Chip: c.Name, Offset: offset, Used: info.Used, By: info.Consumer}, err
}

func runProgram(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "/proc/self/exe", args...).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// relative turns an absolute path into one of m.files.
func relative(p string) string {
	return cmp.Or(strings.TrimPrefix(path.Clean("/"+p), "/"), ".")
}

// read returns a small system file without surrounding spaces; ok is false if it cannot be read.
func (m machine) read(p string) (text string, ok bool) {
	b, err := fs.ReadFile(m.files, relative(p))
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00")), err == nil
}

// number reads a file with an integer.
func (m machine) number(p string) (int64, bool) {
	text, _ := m.read(p)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// glob returns the absolute paths of files by a pattern.
func (m machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.files, relative(pattern)) // the only error is a bad pattern
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names
}

// title returns the model of the computer.
func (m machine) title() string {
	for _, p := range []string{"/proc/device-tree/model", "/sys/class/dmi/id/product_name"} {
		if text, _ := m.read(p); text != "" {
			return plaintext.Clean(text)
		}
	}
	return "computer"
}

// checkDeviceFile checks that a device file exists and that this user may use it. It does not open
// the file. kind is a word for the device, subsystem is udev's, fix is for a missing file.
func (m machine) checkDeviceFile(p, kind, subsystem, fix string) finding {
	info, err := fs.Stat(m.files, relative(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(fix, "%s: no such file", p)
	case err != nil && !errors.Is(err, fs.ErrPermission):
		return fail(fix, "%s: %v", p, err)
	case err == nil && info.Mode()&fs.ModeCharDevice == 0:
		return fail("name a device file", "%s: not a device file, want a %s", p, kind)
	}
	if err := m.access(p); err != nil {
		return m.accessDenied(p, subsystem, info, err)
	}
	return pass("%s: present, access granted", p)
}

// accessDenied returns the fix for a missing permission: the file's group, or a udev rule.
func (m machine) accessDenied(p, subsystem string, info fs.FileInfo, err error) finding {
	const groupAccess = 0o060
	group, mode := "unknown", "unknown"
	if info != nil {
		mode = info.Mode().Perm().String()
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			group = m.group(int(stat.Gid))
		}
		if group != "root" && group != "unknown" && info.Mode()&groupAccess == groupAccess {
			return fail(fmt.Sprintf("`sudo usermod -aG %s %s`, then restart the service", group, m.user.Name),
				"%s: %v for %s (group of the file: %s)", p, err, m.user.Name, group)
		}
	}
	fix := fmt.Sprintf("write `SUBSYSTEM==%q, GROUP=\"optibfm\", MODE=\"0660\"` to "+
		"`/etc/udev/rules.d/60-optibfm.rules`, add the user to that group, "+
		"`sudo udevadm control --reload`, `sudo udevadm trigger`", subsystem)
	return fail(fix, "%s: %v for %s (group %s, mode %s)", p, err, m.user.Name, group, mode)
}
