"""All rows at once, where a server's monitoring tells them (JSZ): one answer in place of lists."""
