// Command mkdeb writes the Debian package of an nfpm configuration. It uses only
// the Debian part of nfpm. It is a separate module, so that the controller does not
// depend on nfpm.
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
	config := flag.String("config", "nfpm.yaml", "nfpm configuration; ${NAME} in it is replaced from the environment")
	target := flag.String("target", "", "the package to write")
	flag.Parse()
	if err := build(*config, *target); err != nil {
		fmt.Fprintln(os.Stderr, "mkdeb:", err)
		os.Exit(1)
	}
}

// build writes the package, or no file after an error. SOURCE_DATE_EPOCH sets its times.
func build(config, target string) error {
	if target == "" {
		return errors.New("-target is empty; give the path of the package")
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
