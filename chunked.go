package bridge

import "net/http"

// lastIfChunked returns next with the connection closed after each HTTP/1 request whose body was chunked. net/http takes chunks
// where a request has a length too, as RFC 9112, section 6.1 lets it, but says to nobody that there was a length and goes on
// reading the connection, which that section forbids: what a proxy took for the end of a body would be answered as the
// next request of whoever shares the proxy's connection.
func lastIfChunked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
