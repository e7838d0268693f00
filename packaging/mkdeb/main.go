// Command mkdeb writes the Debian package that an nfpm configuration describes.
// It is nfpm's own packager, of which it takes the Debian part alone. It is a
// module of its own, so that the controller depends on none of this.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

func main() {
	config := flag.String("config", "nfpm.yaml", "nfpm's configuration; ${NAME} in it is taken from the environment")
	target := flag.String("target", "", "the package to write")
	flag.Parse()
	if err := build(*config, *target); err != nil {
		fmt.Fprintln(os.Stderr, "mkdeb:", err)
		os.Exit(1)
	}
}

// build writes the package, or nothing. Times in it are SOURCE_DATE_EPOCH's.
func build(config, target string) error {
	if target == "" {
		return errors.New("-target: found nothing: give the name of the package to write")
	}
	parsed, err := nfpm.ParseFileWithEnvMapping(config, os.Getenv)
	if err != nil {
		return err
	}
	info, err := parsed.Get("deb")
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	info.Target = target
	if err := errors.Join(deb.Default.Package(info, out), out.Close()); err != nil {
		return errors.Join(err, os.Remove(target))
	}
	return nil
}
