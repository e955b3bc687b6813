package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// chartDays is how far back the charts go (retirement.md 8).
const chartDays = 90

// Measures of a chart, in the units of its view box.
const (
	chartWidth  = 640
	chartHeight = 200
	chartLeft   = 44
	chartTop    = 8
	chartBottom = 22
)

// A chart is stacked bars by day, one colour per transport and revision. Its template draws it without computing anything.
type chart struct {
	Title                             string
	Empty                             bool
	Width, Height, Left, TickX, DateY int
	Lines                             []gridLine
	Bars                              []bar
	Dates                             []dateMark
	Legend                            []series
	Rows                              []figures
}

type gridLine struct {
	Y, TextY float64
	Text     string
}

type bar struct {
	X, Y, W, H string
	Class      string
	Title      string
}

type dateMark struct {
	X            float64
	Anchor, Text string
}

type series struct {
	Name, Class string
	Total       int64
}

type figures struct {
	Day    string
	Values []int64
}

// A lane is one colour of a chart.
type lane struct{ transport, revision string }

// name is how the legend calls it.
func (l lane) name() string {
	transport := map[string]string{exchange.HTTPSSE: "HTTP+SSE", exchange.StreamableHTTP: "Streamable"}[l.transport]
	if transport == "" {
		transport = l.transport
	}
	if l.revision == "" {
		return transport + ", none agreed"
	}
	return transport + " " + l.revision
}

// class is the colour: warm for the legacy transport and cold for the other, darker for older revisions.
func (l lane) class() string {
	shade, ok := map[string]int{"2024-11-05": 0, "2025-03-26": 1, "2025-06-18": 2, "2025-11-25": 3, "2026-07-28": 4}[l.revision]
	switch {
	case !ok:
		return "sx"
	case l.transport == exchange.HTTPSSE:
		return "l" + strconv.Itoa(min(shade, 3))
	case l.transport == exchange.StreamableHTTP:
		return "s" + strconv.Itoa(shade)
	}
	return "sx"
}

func byLane(a, b lane) int {
	if a.transport != b.transport {
		if a.transport == exchange.HTTPSSE {
			return -1
		}
		if b.transport == exchange.HTTPSSE {
			return 1
		}
	}
	return cmp.Or(cmp.Compare(a.transport, b.transport), cmp.Compare(a.revision, b.revision))
}

// newChart draws what value picks of each day, for the days up to now.
func newChart(title string, days []telemetry.DayTotal, now time.Time, value func(telemetry.DayTotal) int64) chart {
	c := chart{
		Title: title, Width: chartWidth, Height: chartHeight, Left: chartLeft, TickX: chartLeft - 6, DateY: chartHeight - 6,
	}
	last := now.UTC().Truncate(24 * time.Hour)
	first := last.AddDate(0, 0, -chartDays+1)
	values := make(map[lane]*[chartDays]int64)
	for _, d := range days {
		i := int(d.Day.UTC().Sub(first) / (24 * time.Hour))
		if v := value(d); i >= 0 && i < chartDays && !d.Day.Before(first) && v > 0 {
			l := lane{d.Transport, d.Revision}
			if values[l] == nil {
				values[l] = new([chartDays]int64)
			}
			values[l][i] += v
		}
	}
	lanes := make([]lane, 0, len(values))
	for l := range values {
		lanes = append(lanes, l)
	}
	slices.SortFunc(lanes, byLane)
	if len(lanes) == 0 {
		c.Empty = true
		return c
	}
	var top int64
	for i := range chartDays {
		var sum int64
		for _, l := range lanes {
			sum += values[l][i]
		}
		top = max(top, sum)
	}
	top = c.grid(top)
	c.draw(lanes, values, first, top)
	for i := 0; i < chartDays; i += 15 {
		c.Dates = append(c.Dates, c.date(i, first))
	}
	c.Dates = append(c.Dates, c.date(chartDays-1, first))
	return c
}

// grid draws the horizontal lines and returns the value of the top one.
func (c *chart) grid(top int64) int64 {
	step := niceStep(top)
	top = (top + step - 1) / step * step
	for v := int64(0); v <= top; v += step {
		y := yOf(v, top)
		c.Lines = append(c.Lines, gridLine{Y: y, TextY: y + 4, Text: short(v)})
	}
	return top
}

// niceStep returns a step of 1, 2 or 5 times a power of ten that makes at most five lines up to top.
func niceStep(top int64) int64 {
	for step := int64(1); ; step *= 10 {
		for _, f := range []int64{1, 2, 5} {
			if top <= 4*step*f {
				return step * f
			}
		}
	}
}

func yOf(v, top int64) float64 {
	return chartTop + (chartHeight-chartTop-chartBottom)*(1-float64(v)/float64(top))
}

func (c *chart) draw(lanes []lane, values map[lane]*[chartDays]int64, first time.Time, top int64) {
	width := float64(chartWidth-chartLeft) / chartDays
	var below [chartDays]int64
	for _, l := range lanes {
		s := series{Name: l.name(), Class: l.class()}
		for i, v := range values[l] {
			if v == 0 {
				continue
			}
			s.Total += v
			y, bottom := yOf(below[i]+v, top), yOf(below[i], top)
			below[i] += v
			c.Bars = append(c.Bars, bar{
				X: decimal(chartLeft + float64(i)*width), Y: decimal(y), W: decimal(width - 1), H: decimal(bottom - y), Class: s.Class,
				Title: fmt.Sprintf("%s, %s: %d", first.AddDate(0, 0, i).Format(time.DateOnly), s.Name, v),
			})
		}
		c.Legend = append(c.Legend, s)
	}
	for i := chartDays - 1; i >= 0; i-- {
		if below[i] == 0 {
			continue
		}
		row := figures{Day: first.AddDate(0, 0, i).Format(time.DateOnly)}
		for _, l := range lanes {
			row.Values = append(row.Values, values[l][i])
		}
		c.Rows = append(c.Rows, row)
	}
}

func (c *chart) date(i int, first time.Time) dateMark {
	width := float64(chartWidth-chartLeft) / chartDays
	m := dateMark{X: chartLeft + (float64(i)+.5)*width, Anchor: "middle", Text: first.AddDate(0, 0, i).Format("2 Jan")}
	switch i {
	case 0:
		m.X, m.Anchor = chartLeft, "start"
	case chartDays - 1:
		m.X, m.Anchor = chartWidth, "end"
	}
	return m
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// short writes 1200 as 1.2k.
func short(v int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.size {
			return strconv.FormatFloat(float64(v)/float64(u.size), 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}
