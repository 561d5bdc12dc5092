// The token came in the address and is a cookie now: on to the page itself, and the address is forgotten. A redirect
// would not do: after a link from elsewhere, a file for one, the browser keeps the cookie back until this site asks.
location.replace(`/${location.hash}`);
