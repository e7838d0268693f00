package report_test

import (
	"log"
	"os"

	"optibfm/flightlog"
	"optibfm/flightlog/report"
)

// Write the page of a log and open it in a browser.
func ExampleWrite() {
	r, err := flightlog.Open("run.mcap")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	page, err := os.Create("report.html")
	if err != nil {
		log.Fatal(err)
	}
	made, err := report.Write(page, r, "run.mcap", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := page.Close(); err != nil {
		log.Fatal(err)
	}
	log.Printf("%d bytes, %d what-if settings", made.Bytes, made.Settings)
}
