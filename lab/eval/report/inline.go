package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// fonts are those of the page's figures: Liberation Sans is as wide as Arial
// and Helvetica, of which most machines have one.
const fonts = "Liberation Sans, Arial, Helvetica, sans-serif"

// inline is a panel as a part of the page.
func (p *Panel) inline(looks map[string]look) (template.HTML, error) {
	drawn, err := newPlot(p, looks)
	if err != nil {
		return "", err
	}
	c := vgsvg.NewWith(vgsvg.UseWH(panelWidth, panelHeight))
	drawn.Draw(draw.Crop(draw.New(c), 2, -6, 2, -2))
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return "", err
	}
	return inlined(&svg, fmt.Sprintf("%g %g", panelWidth.Points(), panelHeight.Points()), p.YLabel+" against "+p.XLabel+", "+p.Title)
}

// mark is the sample of a line in the page's legend.
func (e *entry) mark() (template.HTML, error) {
	const height = vg.Length(10)
	c := vgsvg.NewWith(vgsvg.UseWH(legendThumb, height))
	drawMark(draw.New(c), &e.look, 0, height/2)
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return "", err
	}
	return inlined(&svg, fmt.Sprintf("%g %g", legendThumb.Points(), height.Points()), "")
}

// inlined rewrites an SVG file of a size so that it can stand in a page: the page's policy
// forbids styles of single elements, so they become attributes, and colours
// become classes, which follow the page into the dark. Anything but groups,
// paths and texts is an error.
func inlined(svg io.Reader, size, label string) (template.HTML, error) {
	var out strings.Builder
	for in := xml.NewDecoder(svg); ; {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			return template.HTML(out.String()), nil // of our own drawing, every text and attribute escaped
		}
		if err != nil {
			return "", fmt.Errorf("svg: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			attributes, err := inlinedElement(token, size, label)
			if err != nil {
				return "", err
			}
			out.WriteString("<" + token.Name.Local + attributes + ">")
		case xml.EndElement:
			out.WriteString("</" + token.Name.Local + ">")
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				out.WriteString(template.HTMLEscapeString(text))
			}
		}
	}
}

func inlinedElement(e xml.StartElement, size, label string) (string, error) {
	var out strings.Builder
	write := func(name, value string) {
		out.WriteString(" " + name + `="` + template.HTMLEscapeString(value) + `"`)
	}
	switch e.Name.Local {
	case "svg":
		write("viewBox", "0 0 "+size)
		if label == "" {
			write("aria-hidden", "true")
			return out.String(), nil
		}
		write("role", "img")
		write("aria-label", label)
		return out.String(), nil
	case "g", "path", "text":
	default:
		return "", fmt.Errorf("svg: found the element %q: want groups, paths and texts", e.Name.Local)
	}
	var class []string
	for _, a := range e.Attr {
		if a.Name.Local != "style" {
			write(a.Name.Local, a.Value)
			continue
		}
		for property := range strings.SplitSeq(a.Value, ";") {
			name, value, _ := strings.Cut(property, ":")
			colour := classOf(value)
			switch {
			case colour != "":
				class = append(class, name[:1]+"-"+colour) // f-m0, s-m0
			case name == "font-family":
				write(name, fonts)
			case strings.HasPrefix(name, "font-") && name != "font-size":
			default:
				write(name, value)
			}
		}
	}
	if len(class) > 0 {
		write("class", strings.Join(class, " "))
	}
	return out.String(), nil
}
