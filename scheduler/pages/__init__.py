"""Reports as one page of HTML: a file of its own, or served live by the scheduler's port.

    data        the content of a page as JSON: a report with its tables as columns
    html        the page around it: template, style and script in one text
    page.*      template, style, script: plain files, nothing is built

The script writes every name and message as text, never as HTML.
"""
