// Package trust is the work of the command "console certificate".
package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"optibfm/configs"
	"optibfm/internal/authority"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
)

// Options select the configuration of the robot and what happens to its authority, which is shown
// by default.
type Options struct {
	Config string   // a file or a name
	Set    []string // overrides
	Renew  bool
	Revoke bool
	PEM    bool // print only the root certificate
}

// Run shows, renews or revokes the authority.
func Run(out io.Writer, o Options) error {
	file, err := configs.Load(o.Config, o.Set...)
	if err != nil {
		return err
	}
	path, err := setup.AuthorityFile(file.Run)
	if err != nil {
		return fmt.Errorf("console certificate: %w", err)
	}
	switch {
	case o.Renew:
		err = o.renew(out, path, file.Operator.Web.OnNetwork().Certified())
	case o.Revoke:
		err = o.revoke(out, path)
	default:
		err = o.show(out, path)
	}
	if err != nil {
		return fmt.Errorf("console certificate: %w", err)
	}
	return nil
}

func (o Options) show(out io.Writer, path string) error {
	a, err := authority.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; a console on the network makes it, or now: %s", err, o.command("--renew"))
	}
	if err != nil {
		return o.withFix(path, err)
	}
	if o.PEM {
		_, err := out.Write(a.PEM())
		return err
	}
	return describe(out, path, a)
}

func describe(out io.Writer, path string, a *authority.Authority) error {
	root := a.Root()
	var hosts []string
	hosts = append(hosts, root.PermittedDNSDomains...)
	for _, n := range root.PermittedIPRanges {
		hosts = append(hosts, n.String())
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "name\t%s\n", root.Subject.CommonName)
	fmt.Fprintf(table, "sha256\t%s\n", authority.Fingerprint(root.Raw))
	fmt.Fprintf(table, "valid\t%s to %s\n", root.NotBefore.Format(time.DateOnly), root.NotAfter.Format(time.DateOnly))
	fmt.Fprintf(table, "only for\t%s\n", strings.Join(hosts, ", "))
	fmt.Fprintf(table, "file\t%s\n", path)
	return table.Flush()
}

func (o Options) renew(out io.Writer, path string, hosts []string) error {
	if err := o.checkOwner(path); err != nil {
		return err
	}
	old, _ := authority.Load(path) // a damaged one has no fingerprint
	a, err := authority.Renew(path, hosts, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "New authority. Start the run again, then install this root certificate on each phone:")
	if err := describe(out, path, a); err != nil {
		return err
	}
	if old != nil {
		forget(out, old)
	}
	return nil
}

func (o Options) revoke(out io.Writer, path string) error {
	if err := o.checkOwner(path); err != nil {
		return err
	}
	old, _ := authority.Load(path)
	if err := authority.Remove(path); err != nil {
		return err
	}
	fmt.Fprintln(out, "Removed the authority and its key. The next run of a console on the network makes another one.")
	if old != nil {
		forget(out, old)
	}
	return nil
}

// forget prints the steps that end the trust in an authority.
func forget(out io.Writer, old *authority.Authority) {
	fmt.Fprintf(out, "Remove the old root certificate from each phone. Its SHA-256 is\n  %s\n"+
		"  iOS: Settings > General > VPN & Device Management: %s\n"+
		"  Android: Settings > Security > Encryption & credentials > User credentials\n",
		authority.Fingerprint(old.Root().Raw), old.Root().Subject.CommonName)
}

// checkOwner refuses to write a file that the user of the host process could not read: one of its
// folder's owner.
func (o Options) checkOwner(path string) error {
	for _, name := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
			return fmt.Errorf("%s belongs to %s; run: sudo -u %s %s", name, userName(uid), userName(uid), o.command())
		}
		return nil
	}
	return nil
}

// withFix adds to the error about a file how to replace it.
func (o Options) withFix(path string, err error) error {
	if owner := o.checkOwner(path); owner != nil {
		return owner
	}
	return fmt.Errorf("%w; %s makes a new one", err, o.command("--renew"))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "#" + strconv.Itoa(uid)
}

// command returns the command with the same configuration.
func (o Options) command(flags ...string) string {
	args := append([]string{"console", "certificate"}, flags...)
	if o.Config != "" {
		args = append(args, "--config", shell.Operand(o.Config))
	}
	for _, s := range o.Set {
		args = append(args, "--set", s)
	}
	return shell.ThisProgram().Command(args...)
}
